"""Money around an order and a rental: holds, hourly charges, their reversal, releases and penalties.

Amounts per hour are computed once, when the terms of a rental are fixed, and every charge is a multiple of
them; so any partition of the hours sums to the total, and what a rental holds is always its hours left times
its gross hourly amount. Only the net price crosses currencies, through fx_position; VAT stays in the
wallet's currency. Source: money rules §3-4 (docs/explain/ledger.md).
"""

from __future__ import annotations

from bisect import bisect_left

from bursa.market.events import RentalHoursCharged, RentalHoursReversed
from bursa.market.ledger import credit, debit
from bursa.market.state import Bid, Party, Rental, State, Terms
from bursa.market.types import HOUR_NS, EntryKind, Posting, TaxProfile
from bursa.money import (
    Currency,
    convert_half_even,
    customer_rate,
    fee_micros,
    round_half_even,
    tax_micros,
    to_wallet_up,
)

_USD = Currency.USD
#: Reliability is kept in parts per million of promised hours.
_DELIVERED_PPM = 1_000_000
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_HOLD_PLACED = EntryKind.HOLD_PLACED
_HOLD_RELEASED = EntryKind.HOLD_RELEASED
_HOLD_AMENDED = EntryKind.HOLD_AMENDED
_TRADE = EntryKind.TRADE
_HOURS_CHARGED = EntryKind.HOURS_CHARGED
_RENTAL_RELEASED = EntryKind.RENTAL_RELEASED


def usable_mid(state: State, currency: Currency, at_ns: int) -> int:
    """Return the ECB mid for a wallet's currency, 0 when there is none or it is older than the rules allow."""
    rate = state.rates.get(currency)
    if rate is None or at_ns - rate.as_of_ns > state.rules.fx_age_hours_max * HOUR_NS:
        return 0
    return rate.mid_micros


def net_and_vat(price_micros: int, rate_micros: int, vat_ppm: int) -> tuple[int, int]:
    """Return (net, VAT) of one GPU-hour in the wallet's currency; ``rate_micros`` is 0 for a US$ wallet."""
    net = to_wallet_up(price_micros, rate_micros) if rate_micros else price_micros
    return net, tax_micros(net, vat_ppm)


def make_terms(
    state: State, *, price_micros: int, gpus: int, hours: int, mid_micros: int, rate_micros: int, tax: TaxProfile
) -> Terms:
    """Fix what ``hours`` hours on ``gpus`` GPUs cost from here on."""
    assert price_micros > 0, price_micros
    net, vat = net_and_vat(price_micros, rate_micros, tax.vat_ppm)
    usd = gpus * price_micros
    mid_net = convert_half_even(usd, mid_micros) if mid_micros else 0
    assert mid_net <= gpus * net, "the customer's rate is never better than the mid"
    fee = fee_micros(usd, state.rules.fee_bps)
    return Terms(hours, price_micros, usd, fee, gpus * net, gpus * vat, mid_net, tax.country)


def rate_of(state: State, mid_micros: int) -> int:
    """Return the customer's rate for a mid, 0 for none."""
    return customer_rate(mid_micros, state.rules.fx_margin_bps) if mid_micros else 0


def place_hold(state: State, bid: Bid, at_ns: int) -> None:
    """Move a new bid's hold out of the wallet."""
    assert bid.hold_micros > 0, bid
    currency = bid.currency
    postings = (
        Posting(currency, f"wallet:{bid.party_id}", bid.hold_micros, 0),
        Posting(currency, f"hold:{bid.order_id}", 0, bid.hold_micros),
    )
    state.post(_HOLD_PLACED, postings, at_ns, party_id=bid.party_id, order_id=bid.order_id)


def resize_hold(state: State, bid: Bid, hold_micros: int, at_ns: int) -> None:
    """Make an open bid's hold larger or smaller; the wallet must have what is missing."""
    more = hold_micros - bid.hold_micros
    if more == 0:
        return
    wallet, hold = f"wallet:{bid.party_id}", f"hold:{bid.order_id}"
    source, target = (wallet, hold) if more > 0 else (hold, wallet)
    postings = (debit(bid.currency, source, abs(more)), credit(bid.currency, target, abs(more)))
    bid.hold_micros = hold_micros
    kind = _HOLD_AMENDED if hold_micros else _HOLD_RELEASED
    state.post(kind, postings, at_ns, party_id=bid.party_id, order_id=bid.order_id)


def move_hold(state: State, bid: Bid, rental: Rental, at_ns: int) -> None:
    """At a trade: one lot's hold becomes the rental's; what the better price saves is free at once."""
    currency = bid.currency
    lot = bid.gross_micros * bid.gpus * bid.hours
    terms = rental.terms[0]
    kept = (terms.net_micros + terms.vat_micros) * bid.hours
    assert 0 < kept <= lot <= bid.hold_micros, (kept, lot, bid.hold_micros)
    bid.hold_micros -= lot
    rental.held_micros = kept
    postings: tuple[Posting, ...] = (
        Posting(currency, f"hold:{bid.order_id}", lot, 0),
        Posting(currency, f"held:{rental.rental_id}", 0, kept),
    )
    if lot > kept:
        postings += (Posting(currency, f"wallet:{bid.party_id}", 0, lot - kept),)
    state.post(_TRADE, postings, at_ns, party_id=bid.party_id, order_id=bid.order_id, rental_id=rental.rental_id)


def _hour_postings(rental: Rental, terms: Terms, hours: int) -> tuple[Posting, ...]:
    """Return the postings that charge ``hours`` hours at one set of terms."""
    currency = rental.currency
    share = hours * (terms.usd_micros - terms.fee_micros)
    fee = hours * terms.fee_micros
    vat = hours * terms.vat_micros
    net = hours * terms.net_micros
    held = Posting(currency, f"held:{rental.rental_id}", net + vat, 0)
    tax = (Posting(currency, f"vat_accrued:{terms.country}", 0, vat),) if vat else ()
    sale: tuple[Posting, ...] = (Posting(_USD, "revenue.passthrough", 0, share),)
    if fee:
        sale += (Posting(_USD, "revenue.platform_fee", 0, fee),)
    cost = (
        Posting(_USD, "cost.gpu_hours", share, 0),
        Posting(_USD, f"seller_pending:{rental.seller_id}", 0, share),
    )
    if currency is _USD:
        return (held, *sale, *tax, *cost)
    mid = hours * terms.mid_net_micros
    margin = (Posting(currency, "revenue.fx_margin", 0, net - mid),) if net > mid else ()
    crossed = (Posting(currency, "fx_position", 0, mid),) if mid else ()
    return (held, *crossed, *margin, *tax, Posting(_USD, "fx_position", share + fee, 0), *sale, *cost)


def charge_hours(state: State, rental: Rental, hours: int, delivered: int, at_ns: int) -> None:
    """Charge the next ``hours`` hours of a rental; the ``delivered`` ones of them count for the host's reliability."""
    assert 0 < hours <= rental.hours - rental.charged_hours, (hours, rental)
    assert 0 <= delivered <= hours, (delivered, hours)
    left = hours
    for terms, count in _next_terms(rental, hours):
        postings = _hour_postings(rental, terms, count)
        rental.held_micros -= count * (terms.net_micros + terms.vat_micros)
        state.post(_HOURS_CHARGED, postings, at_ns, party_id=rental.buyer_id, rental_id=rental.rental_id)
        earn(state, state.parties[rental.seller_id], count * (terms.usd_micros - terms.fee_micros), at_ns)
        rental.charged_hours += count
        left -= count
    assert left == 0, left
    assert rental.held_micros >= 0, rental
    state.events.append(RentalHoursCharged(rental.rental_id, hours, rental.charged_hours))
    weigh_reliability(state, rental.host_id, delivered, is_delivered=True)


def reverse_hours(state: State, rental: Rental, hours: int, at_ns: int) -> None:
    """Give back the last ``hours`` charged hours, which turned out not to be delivered: the mirror of their charge."""
    assert 0 < hours <= rental.charged_hours, (hours, rental)
    rental.charged_hours -= hours
    for terms, count in _next_terms(rental, hours):
        mirrored = tuple(
            Posting(p.currency, p.account, p.credit_micros, p.debit_micros)
            for p in _hour_postings(rental, terms, count)
        )
        rental.held_micros += count * (terms.net_micros + terms.vat_micros)
        share = count * (terms.usd_micros - terms.fee_micros)
        mirrored = _take_earnings(state, rental, share, mirrored)
        state.post(EntryKind.HOURS_REVERSED, mirrored, at_ns, party_id=rental.buyer_id, rental_id=rental.rental_id)
    assert rental.charged_hours >= 0, rental
    state.events.append(RentalHoursReversed(rental.rental_id, hours, rental.charged_hours))


def _next_terms(rental: Rental, hours: int) -> list[tuple[Terms, int]]:
    """Return (terms, hours) for the ``hours`` hours after the charged ones."""
    if len(rental.terms) == 1:
        return [(rental.terms[0], hours)]
    parts: list[tuple[Terms, int]] = []
    start = 0
    first, last = rental.charged_hours, rental.charged_hours + hours
    for terms in rental.terms:
        count = min(last, start + terms.hours) - max(first, start)
        if count > 0:
            parts.append((terms, count))
        start += terms.hours
    return parts


def earn(state: State, seller: Party, micros: int, at_ns: int) -> None:
    """Remember when a seller's earnings clear: whole hours, rounded up, after the dispute window."""
    clears_at_ns = -(-(at_ns + state.rules.dispute_hours * HOUR_NS) // HOUR_NS) * HOUR_NS
    pending = seller.pending
    at = bisect_left(pending, (clears_at_ns, 0))
    if at < len(pending) and pending[at][0] == clears_at_ns:
        pending[at] = (clears_at_ns, pending[at][1] + micros)
        return
    pending.insert(at, (clears_at_ns, micros))
    if at == 0:
        state.timers.add(clears_at_ns, 4, seller.party_id)


def take_pending(seller: Party, micros: int) -> None:
    """Take earnings out of the dispute window again, newest first."""
    left = micros
    while left:
        assert seller.pending, (seller, left)
        clears_at_ns, amount = seller.pending.pop()
        taken = min(amount, left)
        left -= taken
        if amount > taken:
            seller.pending.append((clears_at_ns, amount - taken))


def _take_earnings(state: State, rental: Rental, share: int, postings: tuple[Posting, ...]) -> tuple[Posting, ...]:
    """Replace the debit of seller_pending by what is really there: pending, then available, then a receivable."""
    seller = state.parties[rental.seller_id]
    number = seller.party_id
    pending = min(share, state.ledger.balance(_USD, f"seller_pending:{number}"))
    available = min(share - pending, state.ledger.balance(_USD, f"seller_available:{number}"))
    owed = share - pending - available
    take_pending(seller, pending)
    kept = tuple(p for p in postings if p.account != f"seller_pending:{number}")
    for account, micros in (("seller_pending", pending), ("seller_available", available), ("seller_receivable", owed)):
        if micros:
            kept += (Posting(_USD, f"{account}:{number}", micros, 0),)
    return kept


def release_rental(state: State, rental: Rental, at_ns: int) -> None:
    """Give back what a rental that is over still holds."""
    micros = rental.held_micros
    if micros == 0:
        return
    rental.held_micros = 0
    postings = (
        debit(rental.currency, f"held:{rental.rental_id}", micros),
        credit(rental.currency, f"wallet:{rental.buyer_id}", micros),
    )
    state.post(_RENTAL_RELEASED, postings, at_ns, party_id=rental.buyer_id, rental_id=rental.rental_id)


def undelivered_micros(rental: Rental) -> int:
    """Return the net value, in micro-US$, of the hours bought but not charged."""
    left = rental.hours - rental.charged_hours
    return sum(count * terms.usd_micros for terms, count in _next_terms(rental, left)) if left else 0


def pay_penalty(state: State, rental: Rental, bps: int, at_ns: int) -> int:
    """Pay the renter a share of the undelivered value out of what the seller has earned; return it in micro-US$."""
    seller = state.parties[rental.seller_id]
    number = seller.party_id
    due = fee_micros(undelivered_micros(rental), bps)
    pending = min(due, state.ledger.balance(_USD, f"seller_pending:{number}"))
    available = min(due - pending, state.ledger.balance(_USD, f"seller_available:{number}"))
    micros = pending + available
    if micros == 0:
        return 0
    postings: tuple[Posting, ...] = ()
    if pending:
        take_pending(seller, pending)
        postings += (debit(_USD, f"seller_pending:{number}", pending),)
    if available:
        postings += (debit(_USD, f"seller_available:{number}", available),)
    wallet = f"wallet:{rental.buyer_id}"
    if rental.currency is _USD:
        postings += (credit(_USD, wallet, micros),)
    else:
        postings += (credit(_USD, "fx_position", micros),)
        converted = micros * 1_000_000 // rental.mid_micros
        if converted:
            postings += (debit(rental.currency, "fx_position", converted), credit(rental.currency, wallet, converted))
    state.post(EntryKind.PENALTY, postings, at_ns, party_id=rental.buyer_id, rental_id=rental.rental_id)
    return micros


def weigh_reliability(state: State, host_id: int, hours: int, *, is_delivered: bool) -> None:
    """Weigh promised hours into a host's reliability: r += round_half_even(target - r, rules.reliability_hours)."""
    host = state.hosts[host_id]
    target = _DELIVERED_PPM if is_delivered else 0
    for _ in range(hours):
        host.reliability_ppm += round_half_even(target - host.reliability_ppm, state.rules.reliability_hours)
    assert 0 <= host.reliability_ppm <= _DELIVERED_PPM, host
