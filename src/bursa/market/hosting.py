"""Sellers' hosts: list, check, suspend, retire, and the changes of their heartbeat.

Only changes of heartbeat state are commands: the fleet says that it has not heard from a host since a time,
or that it hears it again; the engine decides what follows from the time that passes.
"""

from __future__ import annotations

from bursa.market.commands import CheckHost, ListHost, ReportHeartbeat, ReportSilence, RetireHost, SuspendHost
from bursa.market.events import (
    Done,
    HostCameBack,
    HostListed,
    HostRetired,
    HostStateChanged,
    HostWentSilent,
    Rejected,
    RentalConfirmed,
    RentalInDoubt,
)
from bursa.market.matching import reindex_ask
from bursa.market.refusals import check_number, check_spec, known_host, known_party, refuse
from bursa.market.renting import (
    complete_hours,
    drop_rental,
    fail_rental,
    plan_next_hour,
    refresh_ask,
    suspend_host,
    take_back_undelivered,
)
from bursa.market.state import Host, Rental, State
from bursa.market.timers import TimerKind
from bursa.market.transitions import HOST, move
from bursa.market.types import SECOND_NS, EndReason, HostState, Rejection, RentalState

_HOST = int(TimerKind.HOST)


def on_list_host(state: State, command: ListHost, at_ns: int) -> Done | Rejected:
    """Add a host, UNCHECKED."""
    refusal = check_spec(command.spec, state.rules.gpus_max)
    if refusal:
        return refusal
    if command.instrument not in state.books:
        return refuse(Rejection.UNKNOWN_INSTRUMENT, "instrument", "the slug of a listed GPU model")
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    if party.is_suspended:
        return refuse(Rejection.PARTY_SUSPENDED, "party_id", "a party that is not suspended")
    state.counters.host += 1
    start_ppm = state.rules.reliability_start * 1_000
    host = Host(state.counters.host, command.party_id, command.instrument, command.spec, start_ppm)
    assert host.host_id not in state.hosts, host
    assert at_ns >= state.now_ns, at_ns
    state.hosts[host.host_id] = host
    state.events.append(HostListed(host.host_id, host.party_id, host.instrument, host.spec))
    return Done(host.host_id)


def on_check_host(state: State, command: CheckHost, at_ns: int) -> Done | Rejected:
    """Let a host that passed its check sell; a passed check also means that it is heard."""
    host = known_host(state, command.host_id)
    if isinstance(host, Rejected):
        return host
    spec = command.spec or host.spec
    if command.spec is not None:
        refusal = check_spec(spec, state.rules.gpus_max)
        if refusal:
            return refusal
        if spec.gpus != host.spec.gpus:
            return refuse(Rejection.QUANTITY_OUT_OF_RANGE, "spec.gpus", f"{host.spec.gpus}, as listed")
    host.spec = spec
    host.is_verified = command.is_verified
    host.state = move(HOST, host.state, "check passes")
    state.events.append(HostStateChanged(host.host_id, host.state, host.is_verified, host.spec))
    if host.silent_since_ns:
        _hear(state, host)
    refresh_ask(state, host, at_ns)
    assert host.can_sell, host
    assert not host.is_in_doubt, host
    return Done(host.host_id)


def on_suspend_host(state: State, command: SuspendHost, at_ns: int) -> Done | Rejected:
    """Take a host off the market; rentals on it run on."""
    host = known_host(state, command.host_id)
    if isinstance(host, Rejected):
        return host
    host.state = move(HOST, host.state, "operator suspends")
    state.events.append(HostStateChanged(host.host_id, host.state, host.is_verified, host.spec))
    if host.ask_id:
        reindex_ask(state, state.asks[host.ask_id])
    assert not host.can_sell, host
    assert at_ns >= state.now_ns, at_ns
    return Done(host.host_id)


def on_retire_host(state: State, command: RetireHost, at_ns: int) -> Done | Rejected:
    """Remove a host on which nothing stands; rentals that it never wiped go with it."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    host = known_host(state, command.host_id)
    if isinstance(host, Rejected):
        return host
    if host.party_id != command.party_id:
        return refuse(Rejection.NOT_YOURS, "host_id", "a host of this party")
    rentals = [state.rentals[number] for number in host.rentals]
    if host.ask_id or any(rental.is_live for rental in rentals):
        return refuse(Rejection.WRONG_STATE, "host_id", "a host with no ask and no live rental on it")
    for rental in rentals:
        drop_rental(state, host, rental)
    assert host.busy_mask == 0, host
    assert at_ns >= state.now_ns, at_ns
    del state.hosts[host.host_id]
    state.sides[host.instrument].host_bits.pop(host.host_id, None)
    state.events.append(HostRetired(host.host_id))
    return Done(host.host_id)


# ---- heartbeat -----------------------------------------------------------------------------------------


def on_report_silence(state: State, command: ReportSilence, at_ns: int) -> Done | Rejected:
    """Stop selling and charging on a host that is not heard; the time that passes decides the rest."""
    host = known_host(state, command.host_id)
    if isinstance(host, Rejected):
        return host
    refusal = check_number(Rejection.INVALID_FIELD, "last_heartbeat_ns", command.last_heartbeat_ns, 1, at_ns)
    if refusal:
        return refusal
    if host.silent_since_ns:
        return refuse(Rejection.WRONG_STATE, "host_id", "a host that is heard")
    host.silent_since_ns = command.last_heartbeat_ns
    host.due_ns = host.silent_since_ns + state.rules.in_doubt_seconds * SECOND_NS
    state.timers.add(host.due_ns, _HOST, host.host_id)
    for rental in _live(state, host):
        if rental.state is RentalState.STARTED:
            rental.due_ns = 0
    state.events.append(HostWentSilent(host.host_id, host.silent_since_ns))
    if host.ask_id:
        reindex_ask(state, state.asks[host.ask_id])
    assert not host.can_sell, host
    assert host.due_ns > host.silent_since_ns, host
    return Done(host.host_id)


def on_report_heartbeat(state: State, command: ReportHeartbeat, at_ns: int) -> Done | Rejected:
    """Charge and sell again on a host that is heard again; a suspension stays until a check."""
    host = known_host(state, command.host_id)
    if isinstance(host, Rejected):
        return host
    if not host.silent_since_ns:
        return refuse(Rejection.WRONG_STATE, "host_id", "a host that is silent")
    _hear(state, host)
    refresh_ask(state, host, at_ns)
    assert not host.silent_since_ns, host
    assert not host.is_in_doubt, host
    return Done(host.host_id)


def _hear(state: State, host: Host) -> None:
    """End a silence; hours that were completed meanwhile fall due at once."""
    host.silent_since_ns = 0
    host.due_ns = 0
    state.events.append(HostCameBack(host.host_id))
    for rental in _live(state, host):
        if host.is_in_doubt:
            state.events.append(RentalConfirmed(rental.rental_id))
        if rental.state is RentalState.STARTED:
            plan_next_hour(state, rental)
    host.is_in_doubt = False


def host_is_due(state: State, host: Host, at_ns: int) -> None:
    """Put the rentals of a silent host in doubt; later, fail them."""
    assert host.silent_since_ns, host
    rules = state.rules
    if not host.is_in_doubt:
        host.is_in_doubt = True
        state.events.extend(RentalInDoubt(rental.rental_id) for rental in _live(state, host))
        host.due_ns = host.silent_since_ns + rules.lost_seconds * SECOND_NS
        state.timers.add(host.due_ns, _HOST, host.host_id)
        return
    host.due_ns = 0
    host.is_in_doubt = False
    for rental in _live(state, host):
        hours = complete_hours(rental, host.silent_since_ns)
        fail_rental(state, rental, "host lost", EndReason.HOST_LOST, hours, at_ns)
    for number in host.rentals:
        if not state.rentals[number].is_live:
            take_back_undelivered(state, state.rentals[number], host.silent_since_ns, at_ns)
    suspend_host(state, host)
    assert host.state is HostState.SUSPENDED, host


def _live(state: State, host: Host) -> list[Rental]:
    return [rental for number in host.rentals if (rental := state.rentals[number]).is_live]
