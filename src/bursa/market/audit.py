"""Every invariant of the market, checked from the state alone; O(everything), so for tests and spot checks.

``audit`` returns what is wrong in words, nothing when all is sound. It derives each figure a second way: holds
from orders and rentals, GPUs from rentals, earnings from buckets, crossing from the rules of fitting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bursa.market.fitting import CAPS_ALL, LotQuery, ask_masks, bid_fits, bid_masks, lot_fits
from bursa.market.ledger import LIABILITIES, RECEIVABLES, kind_of
from bursa.market.matching import ask_key, bid_key
from bursa.market.state import IDEMPOTENCY_COMMANDS_MAX, Ask, Bid, Rental, Sides, State
from bursa.market.types import HOUR_NS, INT_MAX, BookState, HostState, RentalState
from bursa.money import Currency

if TYPE_CHECKING:
    from bursa.market.engine import Engine

#: Faults that one audit reports; more only repeat the first.
FAULTS_MAX = 100


def audit(engine: Engine) -> tuple[str, ...]:
    """Return every violated invariant in words, at most FAULTS_MAX; empty when the engine is sound."""
    faults: list[str] = []
    state = engine._state  # noqa: SLF001 - the auditor reads what the engine keeps
    for check in (_ledger, _holds, _transfers, _parties, _offers, _hosts, _rentals, _orders, _indexes, _books, _memory):
        for fault in check(state):
            faults.append(f"{check.__name__[1:]}: {fault}")
            if len(faults) == FAULTS_MAX:
                return tuple(faults)
    return tuple(faults)


def _ledger(state: State) -> Iterator[str]:
    for currency, accounts in state.ledger.balances.items():
        total = sum(accounts.values())
        if total:
            yield f"{currency} accounts sum to {total}, not 0"
        for account, balance in accounts.items():
            kind = kind_of(account)
            if balance == 0:
                yield f"{account} is kept with a balance of 0"
            if kind in LIABILITIES and balance < 0:
                yield f"{account} {currency} is {balance}, below 0"
            if kind in RECEIVABLES and balance > 0:
                yield f"{account} {currency} owes {balance}"
            if abs(balance) > INT_MAX:
                yield f"{account} {currency} is beyond 64 bits"
        sold, paid = accounts.get("revenue.passthrough", 0), accounts.get("cost.gpu_hours", 0)
        if sold + paid:
            yield f"{currency} revenue.passthrough {sold} is not cost.gpu_hours {-paid}"


def _holds(state: State) -> Iterator[str]:
    expected: dict[tuple[str, str], int] = {}
    for bid in state.bids.values():
        need = bid.gross_micros * bid.gpus * bid.hours * bid.leaves
        if bid.hold_micros != need:
            yield f"order {bid.order_id} holds {bid.hold_micros}, needs {need}"
        expected[bid.currency, f"hold:{bid.order_id}"] = need
    for rental in state.rentals.values():
        need = _needs(rental) if rental.is_live else 0
        if rental.held_micros != need:
            yield f"rental {rental.rental_id} holds {rental.held_micros}, needs {need}"
        if need:
            expected[rental.currency, f"held:{rental.rental_id}"] = need
    found = {
        (currency, account): balance
        for currency, accounts in state.ledger.balances.items()
        for account, balance in accounts.items()
        if account.startswith(("hold:", "held:"))
    }
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key, 0) != found.get(key, 0):
            yield f"{key[1]} {key[0]} is {found.get(key, 0)}, should be {expected.get(key, 0)}"


def _needs(rental: Rental) -> int:
    """Return what the hours of a rental not yet charged cost."""
    total, start = 0, 0
    for terms in rental.terms:
        left = start + terms.hours - max(start, rental.charged_hours)
        total += max(0, left) * (terms.net_micros + terms.vat_micros)
        start += terms.hours
    return total


def _transfers(state: State) -> Iterator[str]:
    expected: dict[tuple[str, str], int] = {}
    for transfer in state.transfers.values():
        kind = "payout_in_transit" if transfer.is_payout else "refund_in_transit"
        key = (transfer.currency.value, f"{kind}:{transfer.party_id}")
        expected[key] = expected.get(key, 0) + transfer.micros
    for currency, accounts in state.ledger.balances.items():
        for account, balance in accounts.items():
            if kind_of(account) in {"payout_in_transit", "refund_in_transit"}:
                wanted = expected.pop((currency, account), 0)
                if balance != wanted:
                    yield f"{account} {currency} is {balance}, transfers on their way are {wanted}"
    for (currency, account), wanted in expected.items():
        yield f"{account} {currency} is 0, transfers on their way are {wanted}"


def _parties(state: State) -> Iterator[str]:
    orders: dict[int, set[int]] = {number: set() for number in state.parties}
    for order in _all_orders(state):
        if order.party_id not in orders:
            yield f"order {order.order_id} is of an unknown party {order.party_id}"
            return
        orders[order.party_id].add(order.order_id)
    if orders != state.open_orders:
        yield "open orders are out of step with the parties that placed them"
    for party in state.parties.values():
        number = party.party_id
        pending = sum(micros for _, micros in party.pending)
        booked = state.ledger.balance(Currency.USD, f"seller_pending:{number}")
        if pending != booked:
            yield f"party {number} has {pending} in buckets, {booked} pending in the ledger"
        if [clears for clears, _ in party.pending] != sorted({clears for clears, _ in party.pending}):
            yield f"party {number} has buckets out of order"
        owes = any(state.ledger.balance(currency, f"customer_receivable:{number}") for currency in Currency)
        if owes != party.is_in_debt:
            yield f"party {number} is_in_debt is {party.is_in_debt}, ledger says {owes}"
        if orders[number] and (party.is_suspended or party.is_in_debt):
            yield f"party {number} may not order and has {len(orders[number])} open orders"


def _all_orders(state: State) -> Iterator[Bid | Ask]:
    yield from state.bids.values()
    yield from state.asks.values()


def _offers(state: State) -> Iterator[str]:
    offered: dict[int, int] = {}
    for ask in state.asks.values():
        for offer in ask.offers:
            if offer.host_id in offered:
                yield f"host {offer.host_id} stands in asks {offered[offer.host_id]} and {ask.order_id}"
            offered[offer.host_id] = ask.order_id
            host = state.hosts[offer.host_id]
            busy = host.busy_mask.bit_count()
            if host.leaves(offer.gpus) + busy > host.spec.gpus:
                yield f"host {host.host_id} sells {host.leaves(offer.gpus)} with {busy} of {host.spec.gpus} busy"
            if host.party_id != ask.party_id or host.instrument != ask.instrument:
                yield f"host {host.host_id} does not belong in ask {ask.order_id}"
    for host in state.hosts.values():
        if host.ask_id != offered.get(host.host_id, 0):
            yield f"host {host.host_id} names ask {host.ask_id}, stands in {offered.get(host.host_id, 0)}"


def _hosts(state: State) -> Iterator[str]:
    for host in state.hosts.values():
        mask = 0
        for number in host.rentals:
            rental = state.rentals[number]
            if mask & rental.gpu_mask:
                yield f"host {host.host_id} has GPUs {mask & rental.gpu_mask:b} in two rentals"
            mask |= rental.gpu_mask
        is_doubted = host.is_in_doubt and not host.silent_since_ns
        if is_doubted or not 0 <= host.reliability <= 1_000:  # noqa: PLR2004 - per mille
            yield f"host {host.host_id} has reliability {host.reliability_ppm}, in doubt: {host.is_in_doubt}"
        if mask != host.busy_mask or mask >> host.spec.gpus:
            yield f"host {host.host_id} is busy {host.busy_mask:b}, its rentals say {mask:b}"
        if bool(host.due_ns) != bool(host.silent_since_ns) and host.state is not HostState.SUSPENDED:
            yield f"host {host.host_id} is silent since {host.silent_since_ns} with a timer at {host.due_ns}"


def _rentals(state: State) -> Iterator[str]:  # noqa: C901 - a list of checks
    for rental in state.rentals.values():
        number = rental.rental_id
        host = state.hosts.get(rental.host_id)
        if host is None or number not in host.rentals:
            yield f"rental {number} is not on its host {rental.host_id}"
            continue
        if rental.gpu_mask.bit_count() != rental.gpus:
            yield f"rental {number} has {rental.gpu_mask.bit_count()} GPUs, bought {rental.gpus}"
        if rental.buyer_id not in state.parties or rental.seller_id != host.party_id:
            yield f"rental {number} is of parties {rental.buyer_id} and {rental.seller_id}, not of its host's"
        next_hour_ns = rental.started_at_ns + (rental.charged_hours + 1) * HOUR_NS
        if rental.state is RentalState.STARTED and rental.due_ns not in {0, next_hour_ns}:
            yield f"rental {number} is due at {rental.due_ns}, its next hour ends at {next_hour_ns}"
        if not 0 <= rental.charged_hours <= rental.hours:
            yield f"rental {number} charged {rental.charged_hours} of {rental.hours} hours"
        if rental.is_live == (rental.reason is not None):
            yield f"rental {number} is {rental.state} with reason {rental.reason}"
        if rental.state is RentalState.WIPED:
            yield f"rental {number} is wiped and still here"
        is_paused = host.silent_since_ns and rental.state is RentalState.STARTED
        if rental.is_live and not is_paused and not rental.due_ns:
            yield f"rental {number} has no timer"
        if not rental.is_live and rental.due_ns:
            yield f"rental {number} is over and has a timer"


def _orders(state: State) -> Iterator[str]:
    for bid in state.bids.values():
        if bid.leaves <= 0 or bid.filled < 0 or bid.filled + bid.leaves != bid.lots:
            yield f"order {bid.order_id}: filled {bid.filled} + leaves {bid.leaves} is not {bid.lots} lots"
    if len({order.priority for order in _all_orders(state)}) != len(state.bids) + len(state.asks):
        yield "two orders have one place in time"
    for counter, things in (
        ("order", state.bids),
        ("order", state.asks),
        ("rental", state.rentals),
        ("host", state.hosts),
    ):
        if things and max(things) > getattr(state.counters, counter):
            yield f"a {counter} has an id that was never given"


def _indexes(state: State) -> Iterator[str]:
    for instrument, sides in state.sides.items():
        bids = sorted(
            (bid_key(bid.limit_micros, bid.priority), bid.order_id)
            for bid in state.bids.values()
            if bid.instrument == instrument
        )
        if list(zip(sides.bids.keys(), (bid.order_id for bid in sides.bids), strict=True)) != bids:
            yield f"{instrument}: the index of bids is not the open bids"
        asks = sorted(
            (ask_key(ask.price_micros, ask.priority), ask.order_id)
            for ask in state.asks.values()
            if ask.instrument == instrument and ask_masks(state, sides, ask)[0]
        )
        if list(zip(sides.asks.keys(), (ask.order_id for ask in sides.asks), strict=True)) != asks:
            yield f"{instrument}: the index of asks is not the asks with GPUs on sale"
        for side, index in (("bids", sides.bids), ("asks", sides.asks)):
            yield from (f"{instrument}: {side}: {fault}" for fault in index.faults())
        yield from (f"{instrument}: {fault}" for fault in _hidden(state, sides))
        if {order_id: key for key, order_id in asks} != sides.ask_keys:
            yield f"{instrument}: ask_keys do not match the index"


def _hidden(state: State, sides: Sides) -> Iterator[str]:
    """Say which entry of an index its masks, its horizon or a floor would hide from a search that it fits."""
    for _, bid, fit, caps, _ in sides.bids.entries():
        want, need = bid_masks(sides, bid.gpus, bid.hours, bid.filters)
        if (fit, caps) != (want, CAPS_ALL & ~need):
            yield f"bid {bid.order_id} stands with other masks than it has"
    for key, ask, fit, caps, horizon in sides.asks.entries():
        true_fit, true_caps = ask_masks(state, sides, ask)
        if (fit, true_caps & ~caps, horizon) != (true_fit, 0, ask.until_ns):
            yield f"ask {ask.order_id} stands with other masks than it has"
        for token, floor, since in sides.asks.floors():
            assert isinstance(token, LotQuery), token
            if key < floor and lot_fits(state, ask, token, max(state.now_ns, since - token.hours * HOUR_NS)):
                yield f"a floor hides ask {ask.order_id} from {token}"


def _books(state: State) -> Iterator[str]:
    for instrument, book in state.books.items():
        sides = state.sides[instrument]
        if sum(value for _, value, _ in book.minutes) != book.minutes_value:
            yield f"{instrument}: the 24-hour value does not match its minutes"
        if sum(volume for _, _, volume in book.minutes) != book.minutes_gpu_hours:
            yield f"{instrument}: the 24-hour volume does not match its minutes"
        if book.state is not BookState.OPEN:
            continue
        # By brute force on purpose: the index, its masks and its early exits are what is under audit.
        asks = [ask for ask in state.asks.values() if ask.instrument == instrument]
        asks.sort(key=lambda ask: ask.price_micros)
        for bid in sides.bids:
            for ask in asks:
                if ask.price_micros > bid.limit_micros:
                    break
                if bid_fits(state, ask, bid, state.now_ns) is not None:
                    yield f"{instrument}: open bid {bid.order_id} crosses ask {ask.order_id}, which fits it"


def _memory(state: State) -> Iterator[str]:
    if len(state.remembered) > IDEMPOTENCY_COMMANDS_MAX:
        yield f"{len(state.remembered)} command ids remembered"
    times = [at_ns for _, _, at_ns in state.remembered.values()]
    if times != sorted(times) or (times and times[-1] > state.now_ns):
        yield "remembered commands are out of order in time"
    for at_ns, kind, number in state.timers.missing():
        yield f"nothing will happen at {at_ns} to {kind.name.lower()} {number}"
    if state.events or state.moved:
        yield "events of an earlier command are still there"
