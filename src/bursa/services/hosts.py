"""Sellers' hosts: list, show, retire."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import asdict

from bursa.market import SIMULATED_DRIVER, Done, HostSpec, HostState, ListHost, RetireHost
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import Actor, Exchange, NotFoundError, RefusedError, Reply, command_ids, require
from bursa.services.rentals import read_spec
from bursa.services.submitting import submit
from bursa.wire import HostFacts, HostPage, HostRequest, HostView, Scope, parse_id, show_id

_HOST_COLUMNS: Final = """
    SELECT h.*,
        (SELECT COALESCE(sum(gpus), 0)::integer FROM bursa.rentals AS r
         WHERE r.host_id = h.host_id AND r.state IN ('OPENED', 'STARTED')) AS gpus_rented
    FROM bursa.hosts AS h
"""
_FIND_HOST: Final = _HOST_COLUMNS + " WHERE host_id = %(host_id)s AND party_id = %(party_id)s"
_LIST_HOSTS: Final = (
    _HOST_COLUMNS + " WHERE party_id = %(party_id)s AND host_id < %(before)s ORDER BY host_id DESC LIMIT %(limit)s"
)


async def list_host(
    exchange: Exchange, actor: Actor, request: HostRequest, *, idempotency_key: str | None = None
) -> Reply[HostView]:
    """List a host of the actor's party; it can sell once it has passed its check."""
    require(actor, Scope.SELL)
    ids = command_ids(actor, idempotency_key)
    if request.spec.driver == SIMULATED_DRIVER:
        # Nobody delivers what such a host sells: the exchange's own demo plays it, for its own hosts.
        raise RefusedError("INVALID_FIELD", "spec.driver", SIMULATED_DRIVER, "container or process")
    command = ListHost(
        command_id=ids.of(),
        party_id=actor.party_id,
        instrument=request.instrument,
        spec=spec_of(request.spec),
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    assert isinstance(answer.result, Done), answer
    return Reply(await _load(exchange, actor, show_id("host", answer.result.id)), answer.is_repeat)


async def list_hosts(exchange: Exchange, actor: Actor, *, limit: int = 50, cursor: str | None = None) -> HostPage:
    """Return hosts of the actor's party, newest first, retired ones too."""
    require(actor, Scope.READ)
    limit = check_limit(limit)
    parameters = {"party_id": actor.party_id, "before": before("hosts", cursor), "limit": limit + 1}
    rows = await fetch_all(exchange.reader, _LIST_HOSTS, parameters)
    page = rows[:limit]
    following = write_cursor("hosts", page[-1].host_id) if len(rows) > limit else None
    return HostPage([_show(exchange, row) for row in page], following)


async def show_host(exchange: Exchange, actor: Actor, host_id: str) -> HostView:
    """Return one host of the actor's party."""
    require(actor, Scope.READ)
    return await _load(exchange, actor, host_id)


async def retire_host(
    exchange: Exchange, actor: Actor, host_id: str, *, idempotency_key: str | None = None
) -> Reply[HostView]:
    """Take a host of the actor's party out of the market for good."""
    require(actor, Scope.SELL)
    ids = command_ids(actor, idempotency_key)
    row = await _find(exchange, actor, host_id)
    command = RetireHost(command_id=ids.of(), party_id=actor.party_id, host_id=row.host_id)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(await _load(exchange, actor, host_id), answer.is_repeat)


def spec_of(facts: HostFacts) -> HostSpec:
    """Return the market's specification of a host."""
    return HostSpec(**asdict(facts))


async def _find(exchange: Exchange, actor: Actor, shown_id: str) -> Any:  # noqa: ANN401 - a row
    parameters = {"host_id": parse_id("host", shown_id), "party_id": actor.party_id}
    row = await fetch_one(exchange.reader, _FIND_HOST, parameters)
    if row is None:
        raise NotFoundError("host", shown_id)
    return row


async def _load(exchange: Exchange, actor: Actor, shown_id: str) -> HostView:
    return _show(exchange, await _find(exchange, actor, shown_id))


def _show(exchange: Exchange, row: Any) -> HostView:  # noqa: ANN401 - a row
    spec = read_spec(bytes(row.spec))
    # Which ask a host stands in is market state, not a column: the view knows it as of the newest commit.
    standing = exchange.view.host(row.host_id)
    ask_id = standing.ask_id if standing is not None else 0
    return HostView(
        id=show_id("host", row.host_id),
        instrument=row.instrument,
        state=HostState(row.state),
        is_verified=row.is_verified,
        is_silent=row.silent_since_ns != 0,
        is_retired=row.is_retired,
        is_demo=spec.driver == SIMULATED_DRIVER,
        reliability=row.reliability,
        gpus_rented=row.gpus_rented,
        ask=show_id("order", ask_id) if ask_id else None,
        spec=HostFacts(**asdict(spec)),
        seq=row.seq,
    )
