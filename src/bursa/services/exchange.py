"""What every use case stands on: the exchange's parts, who acts, and the errors that a use case raises.

A use case is one async function: it checks scope and party first, builds a command that is a pure function of the
request (so that the same request with the same Idempotency-Key is the same command), submits it, and shows the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from os import getpid
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar
from uuid import uuid4

from psycopg_pool import AsyncConnectionPool

import bursa
from bursa.errors import BursaError
from bursa.market import MarketRules, MarketView
from bursa.sequencer import Feed, Node
from bursa.wire import Amount, Scope

if TYPE_CHECKING:
    from bursa.services.keycache import KeyCache

T = TypeVar("T")
#: A pool of connections, whatever its rows are made into.
Pool = AsyncConnectionPool[Any]
#: Longest Idempotency-Key, in characters.
IDEMPOTENCY_KEY_CHARS_MAX: Final = 64
#: Fresh ids are a random number of the process, its id (it may have been forked) and a count: no system call an order.
_PROCESS: Final = uuid4().hex
_NUMBERS: Final = count()


@dataclass(slots=True)
class Exchange:
    """The parts of a running exchange as use cases need them.

    ``reader`` has the rights of bursa_reader, ``writer`` those of bursa_app; ``clock`` gives nanoseconds since the
    epoch and only dates keys and spending: the market's own time is the sequencer's.
    """

    node: Node
    view: MarketView
    reader: Pool
    writer: Pool
    keys: KeyCache
    clock: Callable[[], int] = time.time_ns
    is_sandbox: bool = False
    version: str = bursa.__version__

    @property
    def feed(self) -> Feed:
        """The feed of committed records."""
        return self.node.feed

    @property
    def rules(self) -> MarketRules:
        """The market's parameters in force."""
        return self.view.rules


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a key of a party, with what it may do. ``daily_cap_micros`` is in micro-US$; None is no cap."""

    party_id: int
    key_id: int
    scopes: frozenset[Scope]
    is_operator: bool = False
    daily_cap_micros: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What a use case answers that changes something; ``is_repeat``: it had been carried out before."""

    body: T
    is_repeat: bool = False


class RefusedError(BursaError):
    """The exchange refuses what was asked.

    ``problem_code`` is a Rejection or a code of the services; ``field`` is named as on the wire; ``shortfall`` is what
    the wallet lacks.
    """

    code: ClassVar[str] = "refused"

    def __init__(
        self, problem_code: str, field: str, value: object, expected: str, *, shortfall: Amount | None = None
    ) -> None:
        """Say why, and what would be right."""
        super().__init__(field, value, expected)
        self.problem_code = problem_code
        self.shortfall = shortfall

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments."""
        return type(self), (self.problem_code, self.field, self.value, self.expected), self.__dict__


class UnauthenticatedError(BursaError):
    """No key, or one that is unknown, expired or revoked. The key itself is never the value."""

    code: ClassVar[str] = "unauthenticated"

    def __init__(self, problem_code: str = "UNAUTHENTICATED", expected: str = "a valid key of this exchange") -> None:
        """Say what is wrong with the key."""
        super().__init__("Authorization", problem_code, expected)
        self.problem_code = problem_code

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments."""
        return type(self), (self.problem_code, self.expected), self.__dict__


class ForbiddenError(BursaError):
    """The key may not do this; ``expected`` names what it would need."""

    code: ClassVar[str] = "forbidden"
    problem_code: ClassVar[str] = "FORBIDDEN"


class NotFoundError(BursaError):
    """There is no such thing, or it is another party's: nobody can tell the two apart."""

    code: ClassVar[str] = "not_found"
    problem_code: ClassVar[str] = "NOT_FOUND"

    def __init__(self, kind: str, shown_id: str) -> None:
        """Say what was looked for."""
        super().__init__("id", shown_id, f"the id of {'an' if kind[0] in 'aeiou' else 'a'} {kind} of yours")
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments."""
        return type(self), (self.kind, self.value), self.__dict__


def require(actor: Actor, scope: Scope) -> None:
    """Raise ForbiddenError unless the actor's key has a scope."""
    if scope not in actor.scopes:
        raise ForbiddenError("scopes", ", ".join(sorted(actor.scopes)), f"a key with the scope {scope}")


def require_operator(actor: Actor) -> None:
    """Raise ForbiddenError unless the actor is the operator, with the scope admin."""
    if not actor.is_operator:
        raise ForbiddenError("key", f"a key of party {actor.party_id}", "a key of the operator")
    require(actor, Scope.ADMIN)


def check_text(field: str, text: str) -> str:
    """Return a text that people read; RefusedError when it is empty, blank at an end, or not fit for one line."""
    if text and text.isprintable() and text[0] != " " != text[-1]:
        return text
    raise RefusedError("INVALID_FIELD", field, text, "printable characters, no space at either end")


@dataclass(frozen=True, slots=True)
class CommandIds:
    """Ids of the commands of one request: from its Idempotency-Key, or fresh ones when it has none.

    A part (``tax`` of a registration, the place in a batch) and the mark of a fresh id stand before the colon, where
    no key of a client can reach: whatever a client sends, it never meets the id of a part or a fresh one.
    """

    party_id: int
    key: str
    is_fresh: bool

    def of(self, part: str = "") -> str:
        """Return the id of the command, or of a part of the request."""
        if self.is_fresh:
            return f"{self.party_id}/new.{part}:{self.key}"
        return f"{self.party_id}/{part}:{self.key}" if part else f"{self.party_id}:{self.key}"


def command_ids(actor: Actor, idempotency_key: str | None) -> CommandIds:
    """Return the ids of a request; RefusedError when the key is not 1-64 visible ASCII characters."""
    if idempotency_key is None:
        return CommandIds(actor.party_id, f"{_PROCESS}.{getpid():x}.{next(_NUMBERS):x}", is_fresh=True)
    is_good = 0 < len(idempotency_key) <= IDEMPOTENCY_KEY_CHARS_MAX and all(
        "!" <= sign <= "~" for sign in idempotency_key
    )
    if not is_good:
        expected = f"1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters without spaces"
        raise RefusedError("INVALID_FIELD", "Idempotency-Key", idempotency_key, expected)
    return CommandIds(actor.party_id, idempotency_key, is_fresh=False)
