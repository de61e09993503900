"""Rentals: start, hourly charge, stop, extend, fail, reclaim, end, wipe.

Hours run from the agent's report that the rental is ready. An hour is charged when it is complete or when
the renter stops within it; an hour cut short by the host is free. While a host is silent nothing is charged;
when it is lost, what was charged beyond its last heartbeat is given back.
"""

from __future__ import annotations

from msgspec.structs import replace

from bursa.market.charging import (
    charge_hours,
    make_terms,
    pay_penalty,
    rate_of,
    release_rental,
    reverse_hours,
    weigh_reliability,
)
from bursa.market.commands import (
    EndRental,
    ExtendRental,
    FailRental,
    ReclaimRental,
    ReportWiped,
    SetAutoExtend,
    StartRental,
    StopRental,
)
from bursa.market.events import (
    AutoExtendSet,
    Done,
    HostStateChanged,
    Rejected,
    RentalEnded,
    RentalExtended,
    RentalFailed,
    RentalStarted,
    RentalWiped,
)
from bursa.market.ledger import credit, debit
from bursa.market.matching import match_ask, reindex_ask
from bursa.market.refusals import (
    AMOUNT_MICROS_MAX,
    check_funds,
    check_may_order,
    check_number,
    check_price,
    known_party,
    live_rental,
    mid_for,
    refuse,
    renters_rental,
)
from bursa.market.state import AutoExtend, Host, Rental, State, Terms
from bursa.market.timers import TimerKind
from bursa.market.transitions import HOST, RENTAL, move
from bursa.market.types import HOUR_NS, EndReason, EntryKind, Rejection, RentalState
from bursa.market.volatility import forget_trade

_RENTAL = int(TimerKind.RENTAL)
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_OPENED = RentalState.OPENED
_STARTED = RentalState.STARTED
_STOPPED_BY_RENTER = EndReason.STOPPED_BY_RENTER


# ---- start, stop ---------------------------------------------------------------------------------------


def on_start_rental(state: State, command: StartRental, at_ns: int) -> Done | Rejected:
    """Start the clock."""
    rental = live_rental(state, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    if rental.state is not _OPENED:
        return refuse(Rejection.WRONG_STATE, "rental_id", "a rental that is opened and not started")
    if state.hosts[rental.host_id].silent_since_ns:
        return refuse(Rejection.HOST_NOT_HEALTHY, "rental_id", "a rental on a host that is heard")
    rental.state = move(RENTAL, rental.state, "agent reports ready")
    rental.started_at_ns = at_ns
    plan_next_hour(state, rental)
    assert rental.charged_hours == 0, rental
    assert rental.due_ns == at_ns + HOUR_NS, rental
    state.events.append(RentalStarted(rental.rental_id, at_ns, at_ns + rental.hours * HOUR_NS))
    return Done(rental.rental_id)


def plan_next_hour(state: State, rental: Rental) -> None:
    """Set the timer of a started rental to the end of its next hour."""
    rental.due_ns = rental.started_at_ns + (rental.charged_hours + 1) * HOUR_NS
    state.timers.add(rental.due_ns, _RENTAL, rental.rental_id)


def complete_hours(rental: Rental, at_ns: int) -> int:
    """Return how many hours of a rental are complete by a time."""
    if rental.state is not _STARTED:
        return 0
    return max(0, min(rental.hours, (at_ns - rental.started_at_ns) // HOUR_NS))


def on_stop_rental(state: State, command: StopRental, at_ns: int) -> Done | Rejected:
    """Charge the started hour, or min_hours if that is longer, and release the rest."""
    rental = renters_rental(state, command.party_id, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    host = state.hosts[rental.host_id]
    if rental.state is _OPENED:
        due = delivered = 0
    elif host.is_in_doubt:
        due = delivered = complete_hours(rental, host.silent_since_ns)
    else:
        delivered = max(1, -(-(at_ns - rental.started_at_ns) // HOUR_NS))
        due = min(rental.hours, max(delivered, rental.min_hours))
    settle_delivered(state, rental, due, at_ns, delivered=delivered)
    end_rental(state, rental, "renter stops", _STOPPED_BY_RENTER, at_ns)
    assert rental.charged_hours == due, rental
    assert rental.held_micros == 0, rental
    return Done(rental.rental_id)


def settle(state: State, rental: Rental, hours: int, at_ns: int, *, delivered: int | None = None) -> None:
    """Bring the charged hours of a rental to ``hours``, by a charge or by giving hours back.

    ``delivered`` of them were delivered, all when it is None; min_hours may charge more than that.
    """
    missing = hours - rental.charged_hours
    if missing > 0:
        good = missing if delivered is None else max(0, min(missing, delivered - rental.charged_hours))
        charge_hours(state, rental, missing, good, at_ns)
    elif missing < 0:
        reverse_hours(state, rental, -missing, at_ns)


def settle_delivered(state: State, rental: Rental, hours: int, at_ns: int, *, delivered: int | None = None) -> None:
    """Settle hours of a host that goes on selling: a higher reliability may let its ask serve stricter bids."""
    host = state.hosts[rental.host_id]
    before = host.reliability
    settle(state, rental, hours, at_ns, delivered=delivered)
    if host.reliability != before:
        refresh_ask(state, host, at_ns)


def end_rental(state: State, rental: Rental, what: str, reason: EndReason, at_ns: int) -> None:
    """End a rental in good order: the rest of its hold is free, its GPUs wait to be wiped."""
    release_rental(state, rental, at_ns)
    _close(state, rental, what, reason, at_ns)
    state.events.append(RentalEnded(rental.rental_id, reason, rental.charged_hours, at_ns))


def _close(state: State, rental: Rental, what: str, reason: EndReason, at_ns: int) -> None:
    """Move a rental to its last state before the wipe. A trade that never became a start says nothing of the price."""
    if rental.state is _OPENED:
        terms = rental.terms[0]
        gpu_hours = rental.gpus * terms.hours
        forget_trade(state.books[rental.instrument], gpu_hours, terms.price_micros, rental.opened_at_ns)
    rental.state = move(RENTAL, rental.state, what)
    rental.reason = reason
    rental.due_ns = 0
    rental.ended_at_ns = at_ns
    rental.auto = None


def take_back_undelivered(state: State, rental: Rental, silent_since_ns: int, at_ns: int) -> None:
    """Give back hours of a rental that had already ended, but that its host, now lost, cannot have delivered."""
    assert not rental.is_live, rental
    if not rental.started_at_ns or rental.ended_at_ns <= silent_since_ns:
        return
    complete = max(0, (silent_since_ns - rental.started_at_ns) // HOUR_NS)
    if rental.charged_hours > complete:
        reverse_hours(state, rental, rental.charged_hours - complete, at_ns)
        release_rental(state, rental, at_ns)
    assert rental.held_micros == 0, rental


# ---- what time does ------------------------------------------------------------------------------------


def rental_is_due(state: State, rental: Rental, at_ns: int) -> None:
    """Do what a rental's timer is for: fail one not started in time, charge complete hours, extend or end."""
    if rental.state is _OPENED:
        fail_rental(state, rental, "not started in time", EndReason.START_FAILED, 0, at_ns)
        suspend_host(state, state.hosts[rental.host_id])
        return
    assert rental.state is _STARTED, rental
    hours = complete_hours(rental, at_ns)
    assert hours > rental.charged_hours, rental
    settle_delivered(state, rental, hours, at_ns)
    if rental.charged_hours == rental.hours:
        reason = _auto_extend(state, rental, at_ns)
        if reason:
            end_rental(state, rental, "hours over", reason, at_ns)
            return
    plan_next_hour(state, rental)


def refresh_ask(state: State, host: Host, at_ns: int) -> None:
    """After a host's reliability, check or state changed: what its ask can serve may have changed too."""
    if host.ask_id:
        ask = state.asks[host.ask_id]
        reindex_ask(state, ask)
        match_ask(state, ask, at_ns)


def suspend_host(state: State, host: Host) -> None:
    """Take a host off the market until it passes a check."""
    host.state = move(HOST, host.state, "fails to deliver")
    state.events.append(HostStateChanged(host.host_id, host.state, host.is_verified, host.spec))
    if host.ask_id:
        reindex_ask(state, state.asks[host.ask_id])


# ---- failure -------------------------------------------------------------------------------------------


def fail_rental(state: State, rental: Rental, what: str, reason: EndReason, hours: int, at_ns: int) -> None:
    """Fail a rental of which ``hours`` hours were delivered: charge those, release the rest, fine the host."""
    rules = state.rules
    settle(state, rental, hours, at_ns)
    undelivered = rental.hours - hours
    bps = {EndReason.HOST_LOST: rules.penalty_failed_bps, EndReason.HOST_RECLAIMED: rules.penalty_reclaimed_bps}
    penalty = pay_penalty(state, rental, bps.get(reason, 0), at_ns)
    release_rental(state, rental, at_ns)
    _close(state, rental, what, reason, at_ns)
    weigh_reliability(state, rental.host_id, undelivered, is_delivered=False)
    state.events.append(RentalFailed(rental.rental_id, reason, rental.charged_hours, at_ns, penalty))


def on_fail_rental(state: State, command: FailRental, at_ns: int) -> Done | Rejected:
    """Fail a rental that its host cannot deliver, and suspend the host."""
    rental = live_rental(state, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    if command.reason not in {EndReason.START_FAILED, EndReason.HOST_LOST}:
        return refuse(Rejection.INVALID_FIELD, "reason", "start_failed or host_lost")
    is_start = command.reason is EndReason.START_FAILED
    if is_start and rental.state is not _OPENED:
        return refuse(Rejection.WRONG_STATE, "reason", "host_lost for a rental that has started")
    host = state.hosts[rental.host_id]
    hours = complete_hours(rental, host.silent_since_ns or at_ns)
    fail_rental(state, rental, "not started in time" if is_start else "host lost", command.reason, hours, at_ns)
    suspend_host(state, host)
    assert rental.state is RentalState.FAILED, rental
    assert rental.held_micros == 0, rental
    return Done(rental.rental_id)


def on_reclaim_rental(state: State, command: ReclaimRental, at_ns: int) -> Done | Rejected:
    """Give a host back to its seller: complete hours are charged, the cut one is free, the penalty is higher."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    rental = live_rental(state, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    if rental.seller_id != command.party_id:
        return refuse(Rejection.NOT_YOURS, "rental_id", "a rental on a host of this party")
    host = state.hosts[rental.host_id]
    hours = complete_hours(rental, host.silent_since_ns or at_ns)
    fail_rental(state, rental, "seller reclaims", EndReason.HOST_RECLAIMED, hours, at_ns)
    suspend_host(state, host)
    assert rental.state is RentalState.FAILED, rental
    assert rental.held_micros == 0, rental
    return Done(rental.rental_id)


def on_end_rental(state: State, command: EndRental, at_ns: int) -> Done | Rejected:
    """End a rental for the operator: complete hours are charged, the cut one is free, nobody is fined."""
    rental = live_rental(state, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    if command.reason not in {EndReason.OPERATOR, EndReason.POLICY}:
        return refuse(Rejection.INVALID_FIELD, "reason", "operator or policy")
    host = state.hosts[rental.host_id]
    settle_delivered(state, rental, complete_hours(rental, host.silent_since_ns or at_ns), at_ns)
    end_rental(state, rental, "operator ends it", command.reason, at_ns)
    assert rental.state is RentalState.ENDED, rental
    assert rental.held_micros == 0, rental
    return Done(rental.rental_id)


# ---- wipe ----------------------------------------------------------------------------------------------


def on_report_wiped(state: State, command: ReportWiped, at_ns: int) -> Done | Rejected:
    """Let a rental leave the engine; its GPUs come back to the host's ask with new time priority."""
    rental = state.rentals.get(command.rental_id)
    if rental is None:
        refusal = live_rental(state, command.rental_id)
        assert isinstance(refusal, Rejected), refusal
        return refusal
    if rental.is_live:
        return refuse(Rejection.WRONG_STATE, "rental_id", "a rental that has ended or failed")
    host = state.hosts[rental.host_id]
    ask = state.asks.get(host.ask_id)
    offered = 0
    for offer in ask.offers if ask else ():
        if offer.host_id == host.host_id:
            offered = offer.gpus
    before = max(0, offered - host.busy_mask.bit_count())
    drop_rental(state, host, rental)
    assert rental.state is RentalState.WIPED, rental
    assert rental.rental_id not in state.rentals, rental
    if ask is not None and max(0, offered - host.busy_mask.bit_count()) > before:
        ask.priority = state.next_priority()
        reindex_ask(state, ask)
        match_ask(state, ask, at_ns)
    return Done(rental.rental_id)


def drop_rental(state: State, host: Host, rental: Rental) -> None:
    """Forget an ended rental and free its GPUs."""
    assert rental.held_micros == 0, rental
    rental.state = move(RENTAL, rental.state, "agent reports wiped")
    host.busy_mask &= ~rental.gpu_mask
    host.rentals.remove(rental.rental_id)
    del state.rentals[rental.rental_id]
    state.events.append(RentalWiped(rental.rental_id, host.host_id))


# ---- extend --------------------------------------------------------------------------------------------


def on_extend_rental(state: State, command: ExtendRental, at_ns: int) -> Done | Rejected:
    """Buy more hours on the same GPUs."""
    rental = renters_rental(state, command.party_id, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    refusal = check_number(Rejection.HOURS_OUT_OF_RANGE, "hours", command.hours, 1, state.rules.hours_max)
    refusal = refusal or check_price(state, "limit_micros", command.limit_micros)
    if refusal:
        return refusal
    terms = _extension(state, rental, command.hours, command.limit_micros, at_ns)
    if isinstance(terms, Rejected):
        return terms
    before = rental.hours
    _extend(state, rental, terms, at_ns)
    assert rental.hours == before + command.hours, rental
    assert rental.due_ns or state.hosts[rental.host_id].silent_since_ns, rental
    return Done(rental.rental_id)


def _extension(state: State, rental: Rental, hours: int, limit_micros: int, at_ns: int) -> Terms | Rejected:
    """Return what an extension costs, or why there is none."""
    buyer = state.parties[rental.buyer_id]
    host = state.hosts[rental.host_id]
    if host.silent_since_ns:
        return refuse(Rejection.HOST_NOT_HEALTHY, "rental_id", "a rental on a host that is heard")
    price = _extension_price(state, rental, host, hours, at_ns)
    if isinstance(price, Rejected):
        return price
    if price > limit_micros:
        return refuse(Rejection.NOTHING_TO_FILL, "limit_micros", f"at least {price}, the price of an extension now")
    if refusal := check_may_order(buyer):
        return refusal
    mid = mid_for(state, rental.currency, at_ns)
    if isinstance(mid, Rejected):
        return mid
    assert buyer.tax is not None, buyer
    terms = make_terms(
        state,
        price_micros=price,
        gpus=rental.gpus,
        hours=hours,
        mid_micros=mid,
        rate_micros=rate_of(state, mid),
        tax=buyer.tax,
    )
    return check_funds(state, buyer, rental.currency, hours * (terms.net_micros + terms.vat_micros)) or terms


def _extension_price(state: State, rental: Rental, host: Host, hours: int, at_ns: int) -> int | Rejected:
    """Return the trade's price within the price lock, later the ask's; or why the host cannot be had longer."""
    total = rental.hours + hours
    started_at_ns = rental.started_at_ns or at_ns
    ends_at_ns = started_at_ns + total * HOUR_NS
    if at_ns <= started_at_ns + rental.lock_hours * HOUR_NS:
        price, hours_max, until_ns = rental.terms[0].price_micros, rental.max_hours, rental.until_ns
    else:
        ask = state.asks.get(rental.ask_id)
        if ask is None or host.ask_id != ask.order_id:
            return refuse(Rejection.ASK_WITHDRAWN, "rental_id", "a rental whose ask still stands")
        if not host.can_sell:
            return refuse(Rejection.HOST_NOT_HEALTHY, "rental_id", "a rental on a host that may sell")
        price, hours_max, until_ns = ask.price_micros, ask.max_hours, ask.until_ns
    if total > hours_max:
        most = max(0, hours_max - rental.hours)
        return refuse(Rejection.HOURS_OUT_OF_RANGE, "hours", f"at most {most}: the ask lets {hours_max} h in all")
    if ends_at_ns > until_ns:
        return refuse(Rejection.HOURS_OUT_OF_RANGE, "hours", "an end before the ask's")
    return price


def _extend(state: State, rental: Rental, terms: Terms, at_ns: int) -> None:
    micros = terms.hours * (terms.net_micros + terms.vat_micros)
    assert micros > 0, terms
    postings = (
        debit(rental.currency, f"wallet:{rental.buyer_id}", micros),
        credit(rental.currency, f"held:{rental.rental_id}", micros),
    )
    rental.held_micros += micros
    last = rental.terms[-1]
    if rental.state is _STARTED and replace(terms, hours=last.hours) == last:
        rental.terms[-1] = replace(last, hours=last.hours + terms.hours)
    else:
        rental.terms.append(terms)
    state.post(EntryKind.RENTAL_EXTENDED, postings, at_ns, party_id=rental.buyer_id, rental_id=rental.rental_id)
    ends_at_ns = rental.started_at_ns + rental.hours * HOUR_NS if rental.started_at_ns else 0
    state.events.append(RentalExtended(rental.rental_id, terms.hours, terms.price_micros, ends_at_ns))


def on_set_auto_extend(state: State, command: SetAutoExtend, at_ns: int) -> Done | Rejected:
    """Turn automatic extension on or off."""
    rental = renters_rental(state, command.party_id, command.rental_id)
    if isinstance(rental, Rejected):
        return rental
    refusal = check_number(Rejection.HOURS_OUT_OF_RANGE, "hours", command.hours, 0, state.rules.hours_max)
    if command.hours:
        refusal = (
            refusal
            or check_price(state, "limit_micros", command.limit_micros)
            or check_number(Rejection.AMOUNT_OUT_OF_RANGE, "cap_micros", command.cap_micros, 1, AMOUNT_MICROS_MAX)
        )
    elif command.limit_micros or command.cap_micros:
        refusal = refuse(Rejection.INVALID_FIELD, "hours", "at least 1, or no limit and no cap")
    if refusal:
        return refusal
    rental.auto = AutoExtend(command.hours, command.limit_micros, command.cap_micros) if command.hours else None
    assert rental.is_live, rental
    assert at_ns >= state.now_ns, at_ns
    state.events.append(AutoExtendSet(rental.rental_id, command.hours, command.limit_micros, command.cap_micros))
    return Done(rental.rental_id)


def _auto_extend(state: State, rental: Rental, at_ns: int) -> EndReason | None:
    """Extend a rental whose hours are over if its renter wants so; return the reason to end when it is not."""
    auto = rental.auto
    if auto is None:
        return EndReason.COMPLETED
    terms = _extension(state, rental, auto.hours, auto.limit_micros, at_ns)
    if isinstance(terms, Rejected):
        short = {Rejection.INSUFFICIENT_FUNDS, Rejection.PARTY_IN_DEBT, Rejection.NO_RATE}
        return EndReason.FUNDS if terms.code in short else EndReason.COMPLETED
    spent = auto.spent_micros + terms.hours * (terms.net_micros + terms.vat_micros)
    if spent > auto.cap_micros:
        return EndReason.FUNDS
    rental.auto = AutoExtend(auto.hours, auto.limit_micros, auto.cap_micros, spent)
    _extend(state, rental, terms, at_ns)
    return None
