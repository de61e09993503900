"""The engine: one pure function over all of the market's state.

``Engine.apply(command, at_ns) -> Outcome`` is the only way that an order, a rental or money changes. It has no
clock, no chance and no input or output: the same commands at the same times give the same outcomes, events
and digest, always. Invariants:

* A refused command changes nothing, and is not remembered: a retry is judged anew.
* An accepted command sent again (same id, same content) gets its outcome again and changes nothing.
* Only Tick acts on time. The caller applies Tick while ``next_due_ns`` is not later than the time of the next
  command, so that every outcome holds only what its own command caused.
* Memory holds what is live, and the ids of the newest 32,768 accepted commands of at most 24 h; older ids are the
  command log's to know (docs/decisions/0003).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from bursa.errors import ClockError, TickDueError
from bursa.market import queries, snapshot
from bursa.market.booking import halt_if_volatile
from bursa.market.clock import on_tick
from bursa.market.commands import Command, Tick
from bursa.market.dispatch import dispatch
from bursa.market.events import Done, Outcome, Placed, Rejected
from bursa.market.refusals import check_text
from bursa.market.rules import MarketRules, broken_rule
from bursa.market.state import IDEMPOTENCY_COMMANDS_MAX, IDEMPOTENCY_NS, Ask, Bid, Book, Host, Party, Rental, State
from bursa.market.types import NO_FILTERS, Filters, Hold, Rejection
from bursa.money import Currency

_encode = msgspec.msgpack.Encoder().encode
_decode_command = msgspec.msgpack.Decoder(Command).decode
_FIELD: Final = re.compile(r"`\$\.?([^`]*)`")


class Engine:
    """All of one market: order books, hosts, rentals and the double-entry ledger."""

    __slots__ = ("_state",)

    def __init__(self, rules: MarketRules | None = None) -> None:
        """Start an empty market; ValueError when a rule is outside its limits."""
        rules = rules or MarketRules()
        if rule := broken_rule(rules):
            raise ValueError(f"{rule}: {getattr(rules, rule)} is outside its limits")
        self._state = State(rules)

    # ---- the one way to change anything ----------------------------------------------------------------

    def apply(self, command: Command, at_ns: int) -> Outcome:
        """Carry out one command at a time in nanoseconds since the epoch, or refuse it without a trace.

        Raises ClockError when ``at_ns`` is not a time or earlier than an earlier command's, TickDueError when
        work is due before this command. Everything else that can be wrong with a command is a Rejected.
        """
        state = self._state
        if type(at_ns) is not int or not state.now_ns <= at_ns < 1 << 62:
            raise ClockError("at_ns", at_ns, f"an integer number of nanoseconds, at least {state.now_ns}")
        try:
            raw = _encode(command)
            command = _decode_command(raw)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            return Outcome(_invalid(command, error))
        command_id = command.command_id
        if refusal := check_text("command_id", command_id):
            return Outcome(refusal)
        if type(command) is Tick:
            return self._finish(command, b"", at_ns, on_tick(state, command, at_ns))
        known = state.remembered.get(command_id)
        if known is not None and at_ns - known[2] <= IDEMPOTENCY_NS:
            if known[0] == raw:
                return known[1]
            return Outcome(
                Rejected(Rejection.EXISTS_WITH_DIFFERENT_FIELDS, "command_id", "an id never used for another command")
            )
        if state.timers.is_due(at_ns):
            raise TickDueError("at_ns", at_ns, f"Tick until nothing is due; due at {self.next_due_ns}")
        return self._finish(command, raw, at_ns, dispatch(state, command, at_ns))

    def _finish(self, command: Command, raw: bytes, at_ns: int, result: Done | Placed | Rejected) -> Outcome:
        """Close the command in hand: collect its events, remember its outcome."""
        state = self._state
        if type(result) is Rejected:
            assert not state.events, (command, result, state.events)
            return Outcome(result)
        if state.moved:
            halt_if_volatile(state, at_ns)
        outcome = Outcome(result, tuple(state.events))
        state.events.clear()
        state.now_ns = at_ns
        if raw:
            remembered = state.remembered
            if command.command_id in remembered:
                del remembered[command.command_id]  # older than it is known for; it stands last again
            remembered[command.command_id] = (raw, outcome, at_ns)
            if len(remembered) > IDEMPOTENCY_COMMANDS_MAX:
                remembered.popitem(last=False)
        else:
            self._forget_old(at_ns)
        return outcome

    def _forget_old(self, at_ns: int) -> None:
        """Drop ids that are older than the engine promises to know; a Tick does this."""
        remembered = self._state.remembered
        while remembered:
            oldest = next(iter(remembered))
            if at_ns - remembered[oldest][2] <= IDEMPOTENCY_NS:
                return
            remembered.popitem(last=False)

    # ---- state as a whole ------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """Time of the newest accepted command."""
        return self._state.now_ns

    def is_due(self, at_ns: int) -> bool:
        """Return whether a Tick at this time has work to do, so must come before any other command."""
        return self._state.timers.is_due(at_ns)

    def remembers(self, command_id: str, at_ns: int) -> bool:
        """Return whether a command with this id, sent now, would be answered as a repeat of an earlier one."""
        known = self._state.remembered.get(command_id)
        return known is not None and at_ns - known[2] <= IDEMPOTENCY_NS

    @property
    def next_due_ns(self) -> int:
        """When the next Tick has work to do; INT_MAX when nothing is planned."""
        return self._state.timers.next_due_ns()

    @property
    def rules(self) -> MarketRules:
        """The parameters in force."""
        return self._state.rules

    def snapshot(self) -> bytes:
        """Return the whole state in canonical form: equal states give equal bytes."""
        return snapshot.dump(self._state)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the engine of a snapshot; SnapshotError when it is not one, or is damaged."""
        engine = cls.__new__(cls)
        engine._state = snapshot.load(data)  # noqa: SLF001 - its own
        return engine

    def digest(self) -> str:
        """Return the SHA-256 of the canonical state, in hexadecimal."""
        return snapshot.digest(self._state)

    # ---- questions -------------------------------------------------------------------------------------

    def available(self, party_id: int, currency: Currency) -> int:
        """Return a party's available balance in micro-units."""
        return self._state.ledger.balance(currency, f"wallet:{party_id}")

    def balance(self, account: str, currency: Currency) -> int:
        """Return credit minus debit of a ledger account, in micro-units."""
        return self._state.ledger.balance(currency, account)

    def accounts(self, currency: str) -> Mapping[str, int]:
        """Return the balances of a currency by account (the engine's own object: read only)."""
        return self._state.ledger.balances[currency]

    def balances(self) -> dict[str, dict[str, int]]:
        """Return a copy of all balances that are not zero, by currency and account."""
        return {currency: dict(accounts) for currency, accounts in self._state.ledger.balances.items()}

    def party(self, party_id: int) -> Party | None:
        """Return a party (the engine's own object: read only)."""
        return self._state.parties.get(party_id)

    def host(self, host_id: int) -> Host | None:
        """Return a host (the engine's own object: read only)."""
        return self._state.hosts.get(host_id)

    def order(self, order_id: int) -> Bid | Ask | None:
        """Return an open order (the engine's own object: read only); None when it is closed or unknown."""
        return self._state.bids.get(order_id) or self._state.asks.get(order_id)

    def rental(self, rental_id: int) -> Rental | None:
        """Return a rental that is not yet wiped (the engine's own object: read only)."""
        return self._state.rentals.get(rental_id)

    def book(self, instrument: str) -> Book | None:
        """Return the state of an instrument's book (the engine's own object: read only)."""
        return self._state.books.get(instrument)

    def holds(self) -> tuple[Hold, ...]:
        """Return every hold of an open bid or a live rental."""
        return queries.holds(self._state)

    def best_ask(
        self,
        instrument: str,
        *,
        gpus: int,
        hours: int,
        filters: Filters = NO_FILTERS,
        party_id: int = 0,
        at_ns: int | None = None,
    ) -> queries.BestAsk | None:
        """Return the ask that would serve one lot of ``gpus`` × ``hours`` first; None when none fits.

        With ``party_id`` the party's own and linked asks are passed over, as they would be in a trade.
        """
        at_ns = self.now_ns if at_ns is None else at_ns
        return queries.best_ask(self._state, instrument, gpus, hours, filters, party_id, at_ns)

    def depth(self, instrument: str, levels_max: int = 50) -> queries.Depth:
        """Return GPUs wanted and on sale at each price, best first, at most ``levels_max`` prices a side."""
        return queries.depth(self._state, instrument, levels_max)

    def indicative(self, instrument: str, at_ns: int | None = None) -> queries.Indicative:
        """Return what an auction held now would do."""
        return queries.indicative(self._state, instrument, self.now_ns if at_ns is None else at_ns)


def _invalid(command: object, error: Exception) -> Rejected:
    """Return the refusal of a command that is not well-formed, naming the field where that is known."""
    text = str(error)
    found = _FIELD.search(text)
    if found and found[1]:
        return Rejected(Rejection.INVALID_FIELD, found[1], text.partition(" - at ")[0])
    if isinstance(command, msgspec.Struct):
        for name in command.__struct_fields__:
            try:
                _encode(getattr(command, name))
            except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as fault:
                return Rejected(Rejection.INVALID_FIELD, name, str(fault))
    return Rejected(Rejection.INVALID_FIELD, "", "a command of this market")
