"""What the operator does: instruments, books, parties, hosts, rentals, transfers, and how the exchange stands.

Every action needs a key of the operator with the scope admin, and is a command in the log under that key's party.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bursa import market
from bursa.errors import InputError
from bursa.market import (
    CheckHost,
    Command,
    EndRental,
    FailRefund,
    HaltBook,
    ListInstrument,
    OpenBook,
    PreopenBook,
    RegisterParty,
    ReinstateParty,
    Rejection,
    ResumeBook,
    ReturnPayout,
    SetTaxProfile,
    SettlePayout,
    SettleRefund,
    SuspendHost,
    SuspendParty,
    TaxProfile,
)
from bursa.money import Currency
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import cursor as lend
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import (
    Actor,
    CommandIds,
    Exchange,
    NotFoundError,
    RefusedError,
    Reply,
    check_text,
    command_ids,
    require_operator,
)
from bursa.services.hosts import spec_of
from bursa.services.keys import make_key
from bursa.services.submitting import submit
from bursa.services.wallet import SANDBOX_PROVIDER
from bursa.wire import (
    CheckRequest,
    Done,
    EndRentalRequest,
    InstrumentRequest,
    KeyRequest,
    NewKey,
    PartyPage,
    PartyRequest,
    PartyView,
    PreopenRequest,
    Status,
    TaxRequest,
    TrialBalance,
    parse_id,
    parse_micros,
    parse_time,
    show_amount,
    show_id,
    show_micros,
)

#: In the place of an instrument: every book that the action can happen to.
ALL_BOOKS: Final = "all"
#: Who carries a settled refund out: the sandbox's provider in a sandbox, else a transfer by bank.
BANK_PROVIDER: Final = "bank_transfer"
_PPM_PER_PERCENT: Final = 10_000
_PERCENT_PLACES: Final = 4
_PERCENT: Final = re.compile(r"[0-9]{1,2}(\.[0-9]{1,4})?")

_PARTY: Final = """
    SELECT p.*, COALESCE(f.name, '') AS name, COALESCE(f.is_demo, false) AS is_demo
    FROM bursa.parties AS p LEFT JOIN bursa.party_profiles AS f USING (party_id)
"""
_FIND_PARTY: Final = _PARTY + " WHERE party_id = %(party_id)s"
_LIST_PARTIES: Final = _PARTY + " WHERE party_id < %(before)s ORDER BY party_id DESC LIMIT %(limit)s"
_STORE_PROFILE: Final = """
    INSERT INTO bursa.party_profiles (party_id, name, country, is_demo)
    VALUES (%(party_id)s, %(name)s, %(country)s, %(is_demo)s)
    ON CONFLICT (party_id) DO UPDATE SET name = EXCLUDED.name, country = EXCLUDED.country, is_demo = EXCLUDED.is_demo
"""
_STORE_COUNTRY: Final = "UPDATE bursa.party_profiles SET country = %(country)s WHERE party_id = %(party_id)s"
_FIND_TRANSFER: Final = "SELECT is_payout FROM bursa.transfers WHERE transfer_id = %(transfer_id)s"
_COUNTS: Final = """
    SELECT (SELECT count(*) FROM bursa.orders WHERE closed_at_ns = 0) AS open_orders,
           (SELECT count(*) FROM bursa.rentals WHERE state IN ('OPENED', 'STARTED')) AS live_rentals
"""
_TRIAL_BALANCE: Final = """
    SELECT currency, sum(micros)::bigint AS sum,
           COALESCE(sum(micros) FILTER (WHERE kind = 'wallet'), 0)::bigint AS wallets,
           COALESCE(sum(micros) FILTER (WHERE kind IN ('hold', 'held')), 0)::bigint AS holds,
           COALESCE(sum(micros) FILTER (WHERE kind IN ('seller_pending', 'seller_available')), 0)::bigint AS sellers,
           COALESCE(sum(micros) FILTER (WHERE kind LIKE 'revenue.%%'), 0)::bigint AS revenue
    FROM (SELECT currency, split_part(account, ':', 1) AS kind, sum(credit_micros - debit_micros) AS micros
          FROM bursa.postings GROUP BY 1, 2) AS kinds
    GROUP BY currency ORDER BY currency
"""
_HELD: Final = """
    SELECT currency, sum(held_micros)::bigint AS micros FROM bursa.balances GROUP BY currency ORDER BY currency
"""


async def _do(exchange: Exchange, ids: CommandIds, command: Command, shown_id: str | None = None) -> Reply[Done]:
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(Done(answer.seq, shown_id), answer.is_repeat)


# ---- instruments and books -----------------------------------------------------------------------------


async def list_instrument(
    exchange: Exchange, actor: Actor, request: InstrumentRequest, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Add a book, or set the reference price of one."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    reference_micros = parse_micros(request.reference_price, "reference_price")
    command = ListInstrument(command_id=ids.of(), instrument=request.instrument, reference_micros=reference_micros)
    return await _do(exchange, ids, command, request.instrument)


async def preopen_book(
    exchange: Exchange, actor: Actor, instrument: str, request: PreopenRequest, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Let orders rest before the opening, in one book or in all that were not opened."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    opens_at_ns = parse_time(request.opens_at, "opens_at") if request.opens_at is not None else 0
    command = PreopenBook(command_id=ids.of(), instrument=_book(instrument), opens_at_ns=opens_at_ns)
    return await _do_to_book(exchange, ids, command, instrument)


async def open_book(
    exchange: Exchange, actor: Actor, instrument: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Hold the opening auction now and trade on, in one book or in all that are not open."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = OpenBook(command_id=ids.of(), instrument=_book(instrument))
    return await _do_to_book(exchange, ids, command, instrument)


async def halt_book(
    exchange: Exchange, actor: Actor, instrument: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Stop matching and new orders, in one book or in all that are open."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = HaltBook(command_id=ids.of(), instrument=_book(instrument))
    return await _do_to_book(exchange, ids, command, instrument)


async def resume_book(
    exchange: Exchange, actor: Actor, instrument: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """End a halt by an auction, in one book or in all that are halted."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = ResumeBook(command_id=ids.of(), instrument=_book(instrument))
    return await _do_to_book(exchange, ids, command, instrument)


def _book(instrument: str) -> str:
    """Return what the market calls a book: "" for all of them."""
    return "" if instrument == ALL_BOOKS else instrument


async def _do_to_book(
    exchange: Exchange, ids: CommandIds, command: PreopenBook | OpenBook | HaltBook | ResumeBook, instrument: str
) -> Reply[Done]:
    """Carry out what happens to a book; its name stands in a path, so an unknown one is not found."""
    try:
        return await _do(exchange, ids, command, instrument)
    except RefusedError as error:
        if error.problem_code == Rejection.UNKNOWN_INSTRUMENT:
            raise NotFoundError("instrument", instrument) from None
        raise


# ---- parties -------------------------------------------------------------------------------------------


async def register_party(
    exchange: Exchange,
    actor: Actor,
    request: PartyRequest,
    *,
    idempotency_key: str | None = None,
    is_demo: bool = False,
) -> Reply[PartyView]:
    """Add a party and, with ``tax``, its tax profile; sent again with its key it finishes what was cut short."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    name = check_text("name", request.name)
    profile = tax_profile(request.tax) if request.tax is not None else None
    command = RegisterParty(command_id=ids.of(), tax_id=request.tax_id, payout_account=request.payout_account)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    assert isinstance(answer.result, market.Done), answer
    party_id = answer.result.id
    parameters = {
        "party_id": party_id,
        "name": name,
        "country": profile.country if profile is not None else "",
        "is_demo": is_demo,
    }
    async with lend(exchange.writer) as rows:
        await rows.execute(_STORE_PROFILE, parameters)
    if profile is not None:
        tax_command = SetTaxProfile(command_id=ids.of("tax"), party_id=party_id, profile=profile)
        await submit(exchange, tax_command, is_fresh=ids.is_fresh)
    return Reply(await _load_party(exchange, party_id), answer.is_repeat)


async def list_parties(exchange: Exchange, actor: Actor, *, limit: int = 50, cursor: str | None = None) -> PartyPage:
    """Return parties, newest first."""
    require_operator(actor)
    limit = check_limit(limit)
    rows = await fetch_all(exchange.reader, _LIST_PARTIES, {"before": before("parties", cursor), "limit": limit + 1})
    page = rows[:limit]
    following = write_cursor("parties", page[-1].party_id) if len(rows) > limit else None
    return PartyPage([_show_party(row) for row in page], following)


async def show_party(exchange: Exchange, actor: Actor, party_id: str) -> PartyView:
    """Return one party."""
    require_operator(actor)
    return await _load_party(exchange, parse_id("party", party_id))


async def set_tax_profile(
    exchange: Exchange, actor: Actor, party_id: str, request: TaxRequest, *, idempotency_key: str | None = None
) -> Reply[PartyView]:
    """Decide how a party's future purchases are taxed."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    number = parse_id("party", party_id)
    profile = tax_profile(request)
    command = SetTaxProfile(command_id=ids.of(), party_id=number, profile=profile)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    async with lend(exchange.writer) as rows:
        await rows.execute(_STORE_COUNTRY, {"party_id": number, "country": profile.country})
    return Reply(await _load_party(exchange, number), answer.is_repeat)


def tax_profile(request: TaxRequest) -> TaxProfile:
    """Return the market's tax profile; percent become parts per million."""
    if not _PERCENT.fullmatch(request.vat_percent):  # the pattern of the request lets a line end pass
        raise InputError("tax.vat_percent", request.vat_percent, 'percent with at most four places, like "19"')
    whole, _, places = request.vat_percent.partition(".")
    vat_ppm = int(whole) * _PPM_PER_PERCENT + int(places.ljust(_PERCENT_PLACES, "0") if places else 0)
    return TaxProfile(request.country, request.scheme, vat_ppm, request.evidence, request.rule_version)


async def suspend_party(
    exchange: Exchange, actor: Actor, party_id: str, *, idempotency_key: str | None = None
) -> Reply[PartyView]:
    """Cancel a party's open orders and take no new ones."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    number = parse_id("party", party_id)
    answer = await submit(exchange, SuspendParty(command_id=ids.of(), party_id=number), is_fresh=ids.is_fresh)
    return Reply(await _load_party(exchange, number), answer.is_repeat)


async def reinstate_party(
    exchange: Exchange, actor: Actor, party_id: str, *, idempotency_key: str | None = None
) -> Reply[PartyView]:
    """Lift a suspension."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    number = parse_id("party", party_id)
    answer = await submit(exchange, ReinstateParty(command_id=ids.of(), party_id=number), is_fresh=ids.is_fresh)
    return Reply(await _load_party(exchange, number), answer.is_repeat)


async def create_party_key(exchange: Exchange, actor: Actor, party_id: str, request: KeyRequest) -> NewKey:
    """Make a key for a party; it is never the operator's, whatever its scopes."""
    require_operator(actor)
    number = parse_id("party", party_id)
    await _load_party(exchange, number)
    return await make_key(exchange, actor, number, request, is_operator=False)


async def _load_party(exchange: Exchange, party_id: int) -> PartyView:
    row = await fetch_one(exchange.reader, _FIND_PARTY, {"party_id": party_id})
    if row is None:
        raise NotFoundError("party", show_id("party", party_id))
    return _show_party(row)


def _show_party(row: Any) -> PartyView:  # noqa: ANN401 - a row
    return PartyView(
        id=show_id("party", row.party_id),
        name=row.name,
        tax_id=row.tax_id,
        is_suspended=row.is_suspended,
        is_in_debt=row.is_in_debt,
        is_demo=row.is_demo,
        seq=row.seq,
    )


# ---- hosts, rentals, transfers -------------------------------------------------------------------------


async def check_host(
    exchange: Exchange, actor: Actor, host_id: str, request: CheckRequest, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Let a host sell that passed its check, with what the probe found."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = CheckHost(
        command_id=ids.of(),
        host_id=parse_id("host", host_id),
        is_verified=request.is_verified,
        spec=spec_of(request.spec) if request.spec is not None else None,
    )
    return await _do(exchange, ids, command, host_id)


async def suspend_host(
    exchange: Exchange, actor: Actor, host_id: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Take a host off the market until it passes a check."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = SuspendHost(command_id=ids.of(), host_id=parse_id("host", host_id))
    return await _do(exchange, ids, command, host_id)


async def end_rental(
    exchange: Exchange, actor: Actor, rental_id: str, request: EndRentalRequest, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """End a rental for a reason of the operator's: complete hours are charged, nobody is fined."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    command = EndRental(command_id=ids.of(), rental_id=parse_id("rental", rental_id), reason=request.reason)
    return await _do(exchange, ids, command, rental_id)


async def settle_transfer(
    exchange: Exchange, actor: Actor, transfer_id: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Book a refund or payout that arrived."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    number = parse_id("transfer", transfer_id)
    if await _is_payout(exchange, number):
        return await _do(exchange, ids, SettlePayout(command_id=ids.of(), payout_id=number), transfer_id)
    provider = SANDBOX_PROVIDER if exchange.is_sandbox else BANK_PROVIDER
    command = SettleRefund(command_id=ids.of(), refund_id=number, provider=provider)
    return await _do(exchange, ids, command, transfer_id)


async def return_transfer(
    exchange: Exchange, actor: Actor, transfer_id: str, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Book a refund or payout that came back: the sum is the party's again."""
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    number = parse_id("transfer", transfer_id)
    command = (
        ReturnPayout(command_id=ids.of(), payout_id=number)
        if await _is_payout(exchange, number)
        else FailRefund(command_id=ids.of(), refund_id=number)
    )
    return await _do(exchange, ids, command, transfer_id)


async def _is_payout(exchange: Exchange, transfer_id: int) -> bool:
    row = await fetch_one(exchange.reader, _FIND_TRANSFER, {"transfer_id": transfer_id})
    if row is None:
        raise NotFoundError("transfer", show_id("transfer", transfer_id))
    return bool(row.is_payout)


# ---- the whole -----------------------------------------------------------------------------------------


async def status(exchange: Exchange, actor: Actor) -> Status:
    """Return how the exchange stands. Reads the whole ledger: for people, not for probes."""
    require_operator(actor)
    node = exchange.node
    async with lend(exchange.reader) as rows:
        await rows.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await rows.execute(_COUNTS)
        counts = await rows.fetchone()
        await rows.execute(_TRIAL_BALANCE)
        balances = await rows.fetchall()
        await rows.execute(_HELD)
        held = await rows.fetchall()
    assert counts is not None, "counts are one row"
    return Status(
        version=exchange.version,
        epoch=node.epoch,
        seq=node.seq,
        digest=node.digest_hex,
        is_leader=node.is_leader,
        queue_depth=node.queue_depth,
        open_orders=counts.open_orders,
        live_rentals=counts.live_rentals,
        trial_balance=[
            TrialBalance(
                currency=Currency(row.currency),
                sum=show_micros(row.sum),
                wallets=show_micros(row.wallets),
                holds=show_micros(row.holds),
                sellers=show_micros(row.sellers),
                revenue=show_micros(row.revenue),
            )
            for row in balances
        ],
        held=[show_amount(row.micros, Currency(row.currency)) for row in held],
    )
