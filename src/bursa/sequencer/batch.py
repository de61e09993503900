"""From applied commands to rows: what one transaction writes.

A batch takes commands one by one as the engine accepts them, and is sealed once, while the engine stands exactly after
the last of them: rows of the log, of entries and trades come from the events, rows of what changes (orders, rentals,
hosts, balances …) are read off the engine then. So a row's content does not depend on how commands fell into batches,
and `verify` may use batches of its own.

Columns and their meaning: store/migrations. Every int is a bigint there unless the name below says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Any, Final, get_args

import msgspec

from bursa.market import (
    Ask,
    AskAccepted,
    AskAmended,
    AuctionHeld,
    AutoExtendSet,
    Bid,
    BidAccepted,
    BidAmended,
    BookStateChanged,
    Command,
    Done,
    Engine,
    Event,
    FailRefund,
    Host,
    HostCameBack,
    HostListed,
    HostRetired,
    HostStateChanged,
    HostWentSilent,
    InstrumentListed,
    JournalEntry,
    OrderClosed,
    Outcome,
    PartyRegistered,
    PartyReinstated,
    PartySuspended,
    PartyUpdated,
    RateSet,
    Rental,
    RentalConfirmed,
    RentalEnded,
    RentalExtended,
    RentalFailed,
    RentalHoursCharged,
    RentalHoursReversed,
    RentalInDoubt,
    RentalOpened,
    RentalStarted,
    RentalWiped,
    RequestPayout,
    RequestRefund,
    ReturnPayout,
    RulesChanged,
    SettlePayout,
    SettleRefund,
    TaxProfileSet,
    Trade,
)
from bursa.money import Currency
from bursa.sequencer.copying import boolean, int4, int8, raw, text, word
from bursa.sequencer.rows import Rows, host_row, order_row, rental_facts, rental_head, terms_of

_pack = msgspec.msgpack.Encoder().encode
_MINUTE_NS: Final = 60 * 10**9
#: Kinds of account whose balance a party's row shows; the holds of its orders and rentals are added up beside them.
_OWNED: Final = frozenset({"wallet", "seller_pending", "seller_available"})
_DEBTS: Final = ("customer_receivable", "seller_receivable")
#: Ledger accounts whose fields are kept ready: of parties, countries, providers and the exchange itself.
_ACCOUNTS_MAX: Final = 65_536
#: Kinds of entry after which a party may be in debt, or no longer.
_DEBT_KINDS: Final = frozenset({"CHARGEBACK", "CHARGEBACK_WON", "DEBT_WRITTEN_OFF", "TOP_UP", "HOURS_REVERSED"})
_link = Struct(">qiq").pack
#: A currency is three letters, so its field has a fixed size.
_posting_head = Struct(">hiqihi3s").pack
_entry_head = Struct(">hiqiq").pack
_log_head = Struct(">hiqiiiq").pack
_two_int8 = Struct(">iqiq").pack
_three_int8 = Struct(">iqiqiq").pack
_four_int8 = Struct(">iqiqiqiq").pack
_EMPTY: Final = text("")
_size = Struct(">i").pack
_DIGEST_SIZE: Final = _size(32)
_two_int4 = Struct(">iiii").pack
_CURRENCIES: Final = {currency.value: currency for currency in Currency}
#: Commands whose result is a refund or payout on its way, or its end; none of their events says so.
_TRANSFERS: Final = frozenset({
    "RequestRefund", "RequestPayout", "SettleRefund", "FailRefund", "SettlePayout", "ReturnPayout",
})  # fmt: skip


_RentalChanged = (
    RentalStarted
    | RentalExtended
    | RentalHoursCharged
    | RentalHoursReversed
    | RentalInDoubt
    | RentalConfirmed
    | AutoExtendSet
)


def next_digest(digest: bytes, seq: int, epoch: int, at_ns: int, command: bytes, outcome: bytes) -> bytes:
    """Return the digest of the log up to a row: SHA-256 over the digest before it and the row."""
    return sha256(digest + _link(seq, epoch, at_ns) + _size(len(command)) + command + outcome).digest()


@lru_cache(_ACCOUNTS_MAX)
def _read_account(account: str) -> tuple[bytes, int, int]:
    """Return an account's field, the party whose balance row shows it, and the party that owes on it (0: none)."""
    family, _, owner = account.partition(":")
    return text(account), int(owner) if family in _OWNED else 0, int(owner) if family in _DEBTS else 0


class Ledgers:
    """What each party has on hold, by currency: the one figure of a balance row that the engine does not keep."""

    def __init__(self, engine: Engine) -> None:
        self.held: dict[tuple[int, str], int] = {}
        for hold in engine.holds():
            key = (hold.party_id, str(hold.currency))
            self.held[key] = self.held.get(key, 0) + hold.micros


class Batch:
    """The commands of one transaction."""

    def __init__(self, engine: Engine, epoch: int, ledgers: Ledgers) -> None:
        self.epoch = epoch
        self._engine = engine
        self.count = 0
        self.last_seq = 0
        self.digest = b""
        self.log: list[bytes] = []
        self.entries: list[bytes] = []
        self.postings: list[bytes] = []
        self.trades: list[bytes] = []
        self._held = ledgers.held
        #: What was touched, with the seq and time of the last command that did so.
        self._orders: dict[int, tuple[int, int]] = {}
        self._rentals: dict[int, tuple[int, int]] = {}
        self._hosts: dict[int, tuple[int, int]] = {}
        self._seen_hosts: dict[int, Host] = {}
        self._parties: dict[int, int] = {}
        self._instruments: dict[str, int] = {}
        self._balances: dict[tuple[int, str], int] = {}
        #: What is new in this batch, or happened in it, and cannot be read off the engine afterwards.
        self._placed: dict[int, tuple[BidAccepted | AskAccepted, int]] = {}
        self._amended: dict[int, BidAmended | AskAmended] = {}
        self._terms: dict[int, bytes] = {}
        self._closed: dict[int, OrderClosed] = {}
        self._opened: dict[int, Trade] = {}
        self._start_by: dict[int, int] = {}
        self._ended: dict[int, Rental | None] = {}
        self._penalties: dict[int, int] = {}
        self._wiped: dict[int, int] = {}
        self._retired: dict[int, int] = {}
        self._candles: dict[tuple[str, int], list[int]] = {}
        self._new_transfers: dict[int, tuple[RequestRefund | RequestPayout, int, int]] = {}
        self._transfers: dict[int, tuple[str, int]] = {}
        self._seq = 0
        self._at_ns = 0

    def add(self, seq: int, at_ns: int, command: Command, outcome: Outcome, digest: bytes) -> bytes:
        """Take one accepted command; return the digest of the log up to it."""
        kind = type(command).__name__
        command_bytes = _pack(command)
        outcome_bytes = _pack(outcome)
        digest = next_digest(digest, seq, self.epoch, at_ns, command_bytes, outcome_bytes)
        # In pieces: the stream joins them all once, and a row is long.
        self.log += (
            _log_head(8, 8, seq, 4, self.epoch, 8, at_ns),
            text(command.command_id),
            word(kind),
            _size(len(command_bytes)),
            command_bytes,
            _size(len(outcome_bytes)),
            outcome_bytes,
            _DIGEST_SIZE,
            digest,
        )
        self.count += 1
        self.digest = digest
        self.last_seq = self._seq = seq
        self._at_ns = at_ns
        for event in outcome.events:
            _TAKE[type(event)](self, event)
        if kind in _TRANSFERS:
            self._take_transfer(command, outcome)
        return digest

    # ---- events ----------------------------------------------------------------------------------------

    def _take_entry(self, event: JournalEntry) -> None:
        seq = self._seq
        number = event.entry_id
        party_id = event.party_id
        kind = event.kind
        self.entries.append(
            _entry_head(8, 8, number, 8, seq)
            + word(kind)
            + _four_int8(8, event.at_ns, 8, party_id, 8, event.order_id, 8, event.rental_id)
            + (text(event.memo) if event.memo else _EMPTY)
        )
        append = self.postings.append
        touched = self._balances
        line = 0
        for posting in event.postings:
            currency = posting.currency
            account = posting.account
            debit = posting.debit_micros
            credit = posting.credit_micros
            if account[0] == "h":  # hold:… and held:… alone: each has its own name, so no cache would help
                key = (party_id, currency)
                self._held[key] = self._held.get(key, 0) + credit - debit
                touched[key] = seq
                field, owner_id = text(account), 0
            else:
                field, owner_id, debtor_id = _read_account(account)
                if owner_id:
                    touched[owner_id, currency] = seq
                elif debtor_id:
                    touched[debtor_id, currency] = seq
                    self._parties[debtor_id] = seq
            append(
                _posting_head(7, 8, number, 2, line, 3, currency.encode())
                + field
                + _three_int8(8, debit, 8, credit, 8, owner_id)
            )
            line += 1  # noqa: SIM113 - enumerate makes a tuple each time, on the hottest loop there is
        if kind in _DEBT_KINDS and party_id:
            self._parties[party_id] = seq

    def _take_trade(self, event: Trade) -> None:
        seq = self._seq
        self.trades.append(
            b"\0\x0e"
            + int8(event.trade_id)
            + word(event.instrument)
            + _two_int8(8, event.bid_id, 8, event.ask_id)
            + _two_int8(8, event.rental_id, 8, event.host_id)
            + _two_int8(8, event.buyer_id, 8, event.seller_id)
            + _two_int4(4, event.gpus, 4, event.hours)
            + int8(event.price_micros)
            + word(event.taker or "AUCTION")
            + _two_int8(8, event.at_ns, 8, seq)
        )
        at = (seq, self._at_ns)
        self._orders[event.bid_id] = at
        self._orders[event.ask_id] = at
        self._opened[event.rental_id] = event
        self._rentals[event.rental_id] = at
        self._instruments[event.instrument] = seq
        volume = event.gpus * event.hours
        price = event.price_micros
        candle = self._candles.get((event.instrument, event.at_ns // _MINUTE_NS))
        if candle is None:
            self._candles[event.instrument, event.at_ns // _MINUTE_NS] = [price, price, price, price, volume, 1]
        else:
            candle[1] = max(candle[1], price)
            candle[2] = min(candle[2], price)
            candle[3] = price
            candle[4] += volume
            candle[5] += 1

    def _take_placed(self, event: BidAccepted | AskAccepted) -> None:
        self._placed[event.order_id] = (event, self._at_ns)
        self._keep_terms(event.order_id, event)
        self._orders[event.order_id] = (self._seq, self._at_ns)

    def _keep_terms(self, order_id: int, event: BidAccepted | AskAccepted | None) -> None:
        """Note an order's terms now: a later command of the batch may close it, and what it held would be lost."""
        order = self._engine.order(order_id) or event
        if order is not None:
            self._terms[order_id] = terms_of(order)

    def _take_amended(self, event: BidAmended | AskAmended) -> None:
        self._amended[event.order_id] = event
        self._keep_terms(event.order_id, None)
        self._orders[event.order_id] = (self._seq, self._at_ns)

    def _take_closed(self, event: OrderClosed) -> None:
        self._closed[event.order_id] = event
        self._orders[event.order_id] = (self._seq, self._at_ns)

    def _take_rental(self, event: _RentalChanged) -> None:
        self._rentals[event.rental_id] = (self._seq, self._at_ns)

    def _take_opened(self, event: RentalOpened) -> None:
        self._start_by[event.rental_id] = event.start_by_ns

    def _take_ended(self, event: RentalEnded) -> None:
        self._rentals[event.rental_id] = (self._seq, self._at_ns)
        self._ended[event.rental_id] = self._engine.rental(event.rental_id)

    def _take_failed(self, event: RentalFailed) -> None:
        self._rentals[event.rental_id] = (self._seq, self._at_ns)
        self._ended[event.rental_id] = self._engine.rental(event.rental_id)
        self._penalties[event.rental_id] = event.penalty_micros

    def _take_wiped(self, event: RentalWiped) -> None:
        self._wiped[event.rental_id] = self._seq
        self._note_host(event.host_id)

    def _take_host(self, event: HostListed | HostStateChanged | HostWentSilent | HostCameBack) -> None:
        self._note_host(event.host_id)

    def _note_host(self, host_id: int) -> None:
        """Note a host now: a later command of the batch may retire it, and the engine forgets it then."""
        self._hosts[host_id] = (self._seq, self._at_ns)
        host = self._engine.host(host_id)
        if host is not None:
            self._seen_hosts[host_id] = host

    def _take_retired(self, event: HostRetired) -> None:
        self._retired[event.host_id] = self._seq

    def _take_party(
        self, event: PartyRegistered | PartyUpdated | TaxProfileSet | PartySuspended | PartyReinstated
    ) -> None:
        self._parties[event.party_id] = self._seq

    def _take_instrument(self, event: InstrumentListed | BookStateChanged | AuctionHeld) -> None:
        self._instruments[event.instrument] = self._seq

    def _take_nothing(self, event: Event) -> None:
        """Rules and rates stand in the log alone."""

    def _take_transfer(self, command: Command, outcome: Outcome) -> None:
        """Note what a command did to a refund or payout on its way; the engine forgets those that are done."""
        match command:
            case RequestRefund() | RequestPayout():
                assert isinstance(outcome.result, Done), outcome
                self._new_transfers[outcome.result.id] = (command, self._seq, self._at_ns)
            case SettleRefund():
                self._transfers[command.refund_id] = ("SETTLED", self._seq)
            case FailRefund():
                self._transfers[command.refund_id] = ("RETURNED", self._seq)
            case SettlePayout():
                self._transfers[command.payout_id] = ("SETTLED", self._seq)
            case ReturnPayout():
                self._transfers[command.payout_id] = ("RETURNED", self._seq)

    # ---- rows ------------------------------------------------------------------------------------------

    def seal(self) -> Rows:
        """Return the rows of the batch; the engine stands where its last command left it."""
        self._touch_through_hosts()
        new_orders, order_changes = self._order_rows()
        new_rentals, rental_changes = self._rental_rows()
        hosts, retired = self._host_rows()
        copied = (self.log, self.entries, self.postings, self.trades, new_orders, new_rentals)
        changed: dict[str, list[tuple[bytes, ...]]] = {
            "change_orders": order_changes,
            "change_rentals": rental_changes,
            "wipe_rentals": [(int8(number), int8(seq)) for number, seq in self._wiped.items()],
            "put_hosts": hosts,
            "retire_hosts": retired,
            "put_parties": self._party_rows(),
            "put_instruments": self._instrument_rows(),
            "put_balances": self._balance_rows(),
            "put_candles": self._candle_rows(),
            "put_transfers": self._transfer_rows(),
            "change_transfers": [
                (int8(number), word(state), int8(seq)) for number, (state, seq) in self._transfers.items()
            ],
        }
        return Rows(copied, {name: rows for name, rows in changed.items() if rows})

    def _touch_through_hosts(self) -> None:
        """Note what changes with what was touched: a host's ask, and the host that a rental's hours weigh on."""
        engine = self._engine
        for host_id, at in self._hosts.items():
            host = engine.host(host_id)
            if host is not None and host.ask_id:
                known = self._orders.get(host.ask_id)
                if known is None or known[0] < at[0]:
                    self._orders[host.ask_id] = at
        for rental_id, at in self._rentals.items():
            rental = engine.rental(rental_id) or self._ended.get(rental_id)
            if rental is not None:
                known = self._hosts.get(rental.host_id)
                if known is None or known[0] < at[0]:
                    self._hosts[rental.host_id] = at

    def _order_rows(self) -> tuple[list[bytes], list[tuple[bytes, ...]]]:
        engine = self._engine
        new: list[bytes] = []
        changes: list[tuple[bytes, ...]] = []
        for order_id, (seq, at_ns) in self._orders.items():
            order = engine.order(order_id)
            placed = self._placed.get(order_id)
            closed = self._closed.get(order_id)
            if order is None and closed is None:
                continue  # a host's ask that was closed before: its row is final
            state, price, lots, filled, leaves, canceled = self._order_facts(order_id, order, closed)
            closed_at_ns = at_ns if closed is not None else 0
            if placed is not None:
                event, placed_at_ns = placed
                facts = (state, price, lots, filled, leaves, canceled)
                new.append(order_row(event, self._terms[order_id], facts, (placed_at_ns, at_ns, closed_at_ns, seq)))
            else:
                terms = self._terms.get(order_id, b"")
                changes.append(
                    (
                        int8(order_id), word(state), int8(price), int4(lots), int4(filled), int4(leaves),
                        int4(canceled), raw(terms), int8(at_ns), int8(closed_at_ns), int8(seq),
                    )
                )  # fmt: skip
        return new, changes

    def _order_facts(
        self, order_id: int, order: Bid | Ask | None, closed: OrderClosed | None
    ) -> tuple[str, int, int, int, int, int]:
        """Return (state, price, lots, filled, leaves, canceled); price or lots -1: as the row has it."""
        if isinstance(order, Bid):
            return order.state, order.limit_micros, order.lots, order.filled, order.leaves, 0
        if isinstance(order, Ask):
            lots, leaves, busy = self._ask_gpus(order)
            return "NEW", order.price_micros, lots, busy, leaves, 0
        assert closed is not None, order_id
        price = lots = -1
        known = self._amended.get(order_id)
        placed = self._placed.get(order_id)
        if isinstance(known, BidAmended):
            price, lots = known.limit_micros, known.lots
        elif isinstance(known, AskAmended):
            price, lots = known.price_micros, sum(offer.gpus for offer in known.offers)
        elif placed is not None and isinstance(placed[0], BidAccepted):
            price, lots = placed[0].limit_micros, placed[0].lots
        elif placed is not None and isinstance(placed[0], AskAccepted):
            price, lots = placed[0].price_micros, sum(offer.gpus for offer in placed[0].offers)
        return closed.state, price, lots, closed.filled_lots, 0, closed.canceled_lots

    def _ask_gpus(self, ask: Ask) -> tuple[int, int, int]:
        """Return an ask's GPUs: (offered, on sale now, busy on its hosts)."""
        offered = leaves = busy = 0
        for offer in ask.offers:
            host = self._engine.host(offer.host_id)
            assert host is not None, ask
            offered += offer.gpus
            leaves += host.leaves(offer.gpus)
            busy += host.busy_mask.bit_count()
        return offered, leaves, busy

    def _rental_rows(self) -> tuple[list[bytes], list[tuple[bytes, ...]]]:
        engine = self._engine
        new: list[bytes] = []
        changes: list[tuple[bytes, ...]] = []
        for rental_id, (seq, _) in self._rentals.items():
            rental = engine.rental(rental_id) or self._ended.get(rental_id)
            if rental is None:
                continue  # it ended before this batch and is wiped in it: see wipe_rentals
            host = engine.host(rental.host_id)
            is_in_doubt = rental.is_live and host is not None and host.is_in_doubt
            facts = rental_facts(rental, self._penalties.get(rental_id, 0), seq, is_in_doubt=is_in_doubt)
            trade = self._opened.get(rental_id)
            if trade is None:
                changes.append((int8(rental_id), *facts))
            else:
                new.append(rental_head(rental, trade, self._start_by[rental_id]) + b"".join(facts))
        return new, changes

    def _host_rows(self) -> tuple[list[tuple[bytes, ...]], list[tuple[bytes, ...]]]:
        rows: list[tuple[bytes, ...]] = []
        for host_id, (seq, _) in self._hosts.items():
            host = self._engine.host(host_id) or self._seen_hosts.get(host_id)
            if host is not None:
                rows.append(host_row(host, seq))
        return rows, [(int8(number), int8(seq)) for number, seq in self._retired.items()]

    def _party_rows(self) -> list[tuple[bytes, ...]]:
        rows: list[tuple[bytes, ...]] = []
        for party_id, seq in self._parties.items():
            party = self._engine.party(party_id)
            assert party is not None, party_id
            tax = b"" if party.tax is None else _pack(party.tax)
            rows.append(
                (
                    int8(party_id), text(party.tax_id), text(party.payout_account), boolean(party.is_suspended),
                    boolean(party.is_in_debt), raw(tax), int8(seq),
                )
            )  # fmt: skip
        return rows

    def _instrument_rows(self) -> list[tuple[bytes, ...]]:
        rows: list[tuple[bytes, ...]] = []
        for instrument, seq in self._instruments.items():
            book = self._engine.book(instrument)
            assert book is not None, instrument
            rows.append(
                (
                    word(instrument), word(book.state), int8(book.due_ns), int8(book.reference_micros),
                    int8(book.last_micros), int8(seq),
                )
            )  # fmt: skip
        return rows

    def _balance_rows(self) -> list[tuple[bytes, ...]]:
        rows: list[tuple[bytes, ...]] = []
        held = self._held
        for (party_id, code), seq in self._balances.items():
            balance = self._engine.accounts(code).get
            number = str(party_id)
            debt = -balance("customer_receivable:" + number, 0) - balance("seller_receivable:" + number, 0)
            rows.append(
                (
                    int8(party_id), word(code), int8(balance("wallet:" + number, 0)),
                    int8(held.get((party_id, code), 0)), int8(balance("seller_pending:" + number, 0)),
                    int8(balance("seller_available:" + number, 0)),
                    int8(debt), int8(seq),
                )
            )  # fmt: skip
        return rows

    def _candle_rows(self) -> list[tuple[bytes, ...]]:
        return [
            (word(instrument), int8(minute), *map(int8, figures[:5]), int4(figures[5]))
            for (instrument, minute), figures in self._candles.items()
        ]

    def _transfer_rows(self) -> list[tuple[bytes, ...]]:
        return [
            (
                int8(number), int8(command.party_id), word(command.currency), int8(command.micros),
                boolean(isinstance(command, RequestPayout)), word("SENT"), int8(at_ns), int8(seq),
            )
            for number, (command, seq, at_ns) in self._new_transfers.items()
        ]  # fmt: skip


# ruff: noqa: SLF001 - the table below belongs to the class above
#: What a batch does with each kind of event; a kind that is missing here fails at import.
_TAKE: Final[dict[type, Callable[[Batch, Any], None]]] = {
    PartyRegistered: Batch._take_party,
    PartyUpdated: Batch._take_party,
    TaxProfileSet: Batch._take_party,
    PartySuspended: Batch._take_party,
    PartyReinstated: Batch._take_party,
    RateSet: Batch._take_nothing,
    RulesChanged: Batch._take_nothing,
    InstrumentListed: Batch._take_instrument,
    BookStateChanged: Batch._take_instrument,
    AuctionHeld: Batch._take_instrument,
    HostListed: Batch._take_host,
    HostStateChanged: Batch._take_host,
    HostWentSilent: Batch._take_host,
    HostCameBack: Batch._take_host,
    HostRetired: Batch._take_retired,
    AskAccepted: Batch._take_placed,
    BidAccepted: Batch._take_placed,
    AskAmended: Batch._take_amended,
    BidAmended: Batch._take_amended,
    OrderClosed: Batch._take_closed,
    Trade: Batch._take_trade,
    RentalOpened: Batch._take_opened,
    RentalStarted: Batch._take_rental,
    RentalHoursCharged: Batch._take_rental,
    RentalHoursReversed: Batch._take_rental,
    RentalExtended: Batch._take_rental,
    AutoExtendSet: Batch._take_rental,
    RentalInDoubt: Batch._take_rental,
    RentalConfirmed: Batch._take_rental,
    RentalEnded: Batch._take_ended,
    RentalFailed: Batch._take_failed,
    RentalWiped: Batch._take_wiped,
    JournalEntry: Batch._take_entry,
}
assert set(_TAKE) == set(get_args(Event)), set(get_args(Event)) ^ set(_TAKE)
