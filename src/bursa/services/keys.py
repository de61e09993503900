"""Keys: who calls, what a key may do, and making and revoking keys.

A key is ``bursa_<number>_<43 characters>``: 256 random bits, of which only the SHA-256 is stored. It is found by its
number and compared in constant time.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from bursa.errors import DatabaseUnavailableError
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import cursor as lend
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import (
    Actor,
    Exchange,
    ForbiddenError,
    NotFoundError,
    Pool,
    RefusedError,
    UnauthenticatedError,
    check_text,
    require,
)
from bursa.services.keycache import CHANNEL, KnownKey
from bursa.wire import (
    Identity,
    Key,
    KeyPage,
    KeyRequest,
    NewKey,
    Scope,
    parse_id,
    parse_micros,
    parse_time,
    show_id,
    show_micros,
)

#: Keys of one party that are neither revoked nor expired.
KEYS_PER_PARTY_MAX: Final = 1_000
#: How often the time of a key's last use is written, in nanoseconds.
USE_WRITTEN_EVERY_NS: Final = 60 * 10**9
_SECRET_BYTES: Final = 32
_PREFIX_CHARS: Final = 4
_KEY: Final = re.compile(r"bursa_([1-9][0-9]{0,17})_([A-Za-z0-9_-]{43})")
_LOG = logging.getLogger(__name__)

_FIND_KEY: Final = """
    SELECT key_id, party_id, name, secret_sha256, scopes, is_operator, daily_cap_micros, expires_at, revoked_at
    FROM bursa.api_keys WHERE key_id = %(key_id)s
"""
_TOUCH_KEY: Final = "UPDATE bursa.api_keys SET last_used_at = %(at)s WHERE key_id = %(key_id)s"
_INSERT_KEY: Final = """
    INSERT INTO bursa.api_keys
        (party_id, name, prefix, secret_sha256, scopes, is_operator, daily_cap_micros, created_at, expires_at)
    VALUES (%(party_id)s, %(name)s, %(prefix)s, %(secret_sha256)s, %(scopes)s, %(is_operator)s, %(daily_cap_micros)s,
            %(created_at)s, %(expires_at)s)
    RETURNING *
"""
_COUNT_KEYS: Final = """
    SELECT count(*) AS keys FROM bursa.api_keys
    WHERE party_id = %(party_id)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(at)s)
"""
_LIST_KEYS: Final = """
    SELECT * FROM bursa.api_keys WHERE party_id = %(party_id)s AND key_id < %(before)s
    ORDER BY key_id DESC LIMIT %(limit)s
"""
_SHOW_KEY: Final = "SELECT * FROM bursa.api_keys WHERE key_id = %(key_id)s"
_REVOKE_KEY: Final = """
    UPDATE bursa.api_keys SET revoked_at = COALESCE(revoked_at, %(at)s)
    WHERE key_id = %(key_id)s AND (party_id = %(party_id)s OR %(is_operator)s) RETURNING *
"""
_NOTIFY: Final = "SELECT pg_notify(%(channel)s, %(key_id)s::text)"
_WHOAMI: Final = """
    SELECT COALESCE(f.name, '') AS name, COALESCE(p.is_suspended, false) AS is_suspended,
           COALESCE(p.is_in_debt, false) AS is_in_debt
    FROM (SELECT %(party_id)s::bigint AS party_id) AS me
    LEFT JOIN bursa.parties AS p USING (party_id) LEFT JOIN bursa.party_profiles AS f USING (party_id)
"""


async def authenticate(exchange: Exchange, secret: str) -> Actor:
    """Return who a key acts for; UnauthenticatedError when it is unknown, expired or revoked."""
    match = _KEY.fullmatch(secret)
    if match is None:
        raise UnauthenticatedError
    key_id, given = int(match[1]), sha256(match[2].encode()).digest()
    now_ns = exchange.clock()
    keys = exchange.keys
    known = keys.get(key_id)
    if known is None:
        generation = keys.generation
        row = await fetch_one(exchange.writer, _FIND_KEY, {"key_id": key_id})
        known = _check_row(row, given)
        keys.put(key_id, known, generation)
    if not hmac.compare_digest(known.secret_sha256, given):
        raise UnauthenticatedError
    if known.expires_at_ns and known.expires_at_ns <= now_ns:
        raise UnauthenticatedError("KEY_EXPIRED", "a key that has not expired")
    if now_ns - known.used_at_ns >= USE_WRITTEN_EVERY_NS:
        known.used_at_ns = now_ns
        await _write_use(exchange, key_id, now_ns)
    return known.actor


def _check_row(row: Any, given: bytes) -> KnownKey:  # noqa: ANN401 - a row
    """Return the key of a row if the secret is its own; a guess learns nothing, not even that a key was revoked."""
    if row is None or not hmac.compare_digest(bytes(row.secret_sha256), given):
        raise UnauthenticatedError
    if row.revoked_at is not None:
        raise UnauthenticatedError("KEY_REVOKED", "a key that was not revoked")
    actor = Actor(
        party_id=row.party_id,
        key_id=row.key_id,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        is_operator=row.is_operator,
        daily_cap_micros=row.daily_cap_micros,
        name=row.name,
    )
    return KnownKey(actor, bytes(row.secret_sha256), parse_time(row.expires_at, "expires_at") if row.expires_at else 0)


async def _write_use(exchange: Exchange, key_id: int, now_ns: int) -> None:
    """Note when a key was last used. It is a courtesy: a request does not fail for it."""
    try:
        async with lend(exchange.writer) as rows:
            await rows.execute(_TOUCH_KEY, {"key_id": key_id, "at": _time(now_ns)})
    except DatabaseUnavailableError:
        _LOG.warning("keys: time of last use not written")


async def issue_key(
    writer: Pool,
    *,
    party_id: int,
    name: str,
    scopes: Iterable[Scope],
    is_operator: bool = False,
    daily_cap_micros: int | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """Make a key without an actor: for the first start, and for who stands at the machine. Cap in micro-US$."""
    at = datetime.now(UTC)
    async with lend(writer) as rows:
        await rows.execute(_COUNT_KEYS, {"party_id": party_id, "at": at})
        row = await rows.fetchone()
        if row is None or row.keys >= KEYS_PER_PARTY_MAX:
            raise RefusedError("LIMIT_REACHED", "name", name, f"at most {KEYS_PER_PARTY_MAX} keys of a party in force")
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        await rows.execute(
            _INSERT_KEY,
            {
                "party_id": party_id,
                "name": name,
                "prefix": secret[:_PREFIX_CHARS],
                "secret_sha256": sha256(secret.encode()).digest(),
                "scopes": sorted(set(scopes)),
                "is_operator": is_operator,
                "daily_cap_micros": daily_cap_micros,
                "created_at": at,
                "expires_at": expires_at,
            },
        )
        made = await rows.fetchone()
    assert made is not None, "INSERT RETURNING gives a row"
    return NewKey(_show(made), f"bursa_{made.key_id}_{secret}")


async def whoami(exchange: Exchange, actor: Actor) -> Identity:
    """Return who the key acts for, and what it may do. Any key may ask."""
    key = await fetch_one(exchange.writer, _SHOW_KEY, {"key_id": actor.key_id})
    if key is None:
        raise UnauthenticatedError
    party = await fetch_one(exchange.reader, _WHOAMI, {"party_id": actor.party_id})
    return Identity(
        party=show_id("party", actor.party_id),
        name=party.name,
        key=_show(key),
        is_operator=actor.is_operator,
        is_suspended=party.is_suspended,
        is_in_debt=party.is_in_debt,
    )


async def create_key(exchange: Exchange, actor: Actor, request: KeyRequest) -> NewKey:
    """Make a key of the actor's party, within what the actor's own key may do."""
    require(actor, Scope.ADMIN)
    return await make_key(exchange, actor, actor.party_id, request, is_operator=actor.is_operator)


async def make_key(
    exchange: Exchange, actor: Actor, party_id: int, request: KeyRequest, *, is_operator: bool
) -> NewKey:
    """Make a key of a party; its scopes, cap and expiry lie within those of the actor's key."""
    missing = sorted(set(request.scopes) - actor.scopes)
    if missing:
        raise ForbiddenError("scopes", ", ".join(missing), f"some of {', '.join(sorted(actor.scopes))}")
    check_text("name", request.name)
    cap = None if request.daily_cap is None else parse_micros(request.daily_cap, "daily_cap")
    most = actor.daily_cap_micros
    if most is not None and (cap is None or cap > most):
        raise ForbiddenError("daily_cap", request.daily_cap, f"at most {show_micros(most)}, the cap of this key")
    if most is not None and Scope.TRADE in request.scopes:
        expected = "scopes without trade: keys made by a key with a daily cap would have caps of their own"
        raise ForbiddenError("scopes", Scope.TRADE.value, expected)
    now_ns = exchange.clock()
    if request.expires_at is not None and parse_time(request.expires_at, "expires_at") <= now_ns:
        raise RefusedError("INVALID_FIELD", "expires_at", request.expires_at.isoformat(), "a time to come")
    maker = await fetch_one(exchange.writer, _SHOW_KEY, {"key_id": actor.key_id})
    if maker is None:
        raise UnauthenticatedError
    latest = maker.expires_at
    if latest is not None and (request.expires_at is None or request.expires_at > latest):
        expected = f"at the latest {latest.isoformat()}, when this key expires"
        raise ForbiddenError("expires_at", request.expires_at and request.expires_at.isoformat(), expected)
    return await issue_key(
        exchange.writer,
        party_id=party_id,
        name=request.name,
        scopes=request.scopes,
        is_operator=is_operator,
        daily_cap_micros=cap,
        expires_at=request.expires_at,
    )


async def list_keys(exchange: Exchange, actor: Actor, *, limit: int = 50, cursor: str | None = None) -> KeyPage:
    """Return keys of the actor's party, newest first, revoked ones too."""
    require(actor, Scope.ADMIN)
    limit = check_limit(limit)
    parameters = {"party_id": actor.party_id, "before": before("keys", cursor), "limit": limit + 1}
    rows = await fetch_all(exchange.writer, _LIST_KEYS, parameters)
    page = rows[:limit]
    return KeyPage([_show(row) for row in page], write_cursor("keys", page[-1].key_id) if len(rows) > limit else None)


async def revoke_key(exchange: Exchange, actor: Actor, key_id: str) -> Key:
    """Revoke a key of the actor's party (the operator: of any) at once; a second time changes nothing."""
    require(actor, Scope.ADMIN)
    number = parse_id("key", key_id)
    parameters = {
        "key_id": number,
        "party_id": actor.party_id,
        "is_operator": actor.is_operator,
        "at": _time(exchange.clock()),
    }
    async with lend(exchange.writer) as rows:
        await rows.execute(_REVOKE_KEY, parameters)
        row = await rows.fetchone()
        if row is not None:
            await rows.execute(_NOTIFY, {"channel": CHANNEL, "key_id": number})
    # Not left to the notice alone: a request that comes next in this process must find the key revoked.
    exchange.keys.forget(number)
    if row is None:
        raise NotFoundError("key", key_id)
    return _show(row)


def _show(row: Any) -> Key:  # noqa: ANN401 - a row
    return Key(
        id=show_id("key", row.key_id),
        name=row.name,
        prefix=f"bursa_{row.key_id}_{row.prefix}",
        scopes=[Scope(scope) for scope in row.scopes],
        daily_cap=None if row.daily_cap_micros is None else show_micros(row.daily_cap_micros),
        created_at=row.created_at.astimezone(UTC),
        expires_at=_utc(row.expires_at),
        revoked_at=_utc(row.revoked_at),
        last_used_at=_utc(row.last_used_at),
    )


def _utc(at: datetime | None) -> datetime | None:
    return at and at.astimezone(UTC)


def _time(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // 10**9, UTC)
