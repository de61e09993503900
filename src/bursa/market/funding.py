"""Money in and out: top-ups, refunds, chargebacks, invoices, earnings, payouts, rates, operator entries.

Source of the entries: money rules §3 (docs/explain/ledger.md).
"""

from __future__ import annotations

from bursa.market.commands import (
    CreditTopUp,
    FailRefund,
    PostChargeback,
    PostEntry,
    PostInvoice,
    RequestPayout,
    RequestRefund,
    ReturnPayout,
    SetRate,
    SettlePayout,
    SettleRefund,
    WinChargeback,
    WriteOffDebt,
)
from bursa.market.events import Done, RateSet, Rejected
from bursa.market.ledger import LIABILITIES, OPERATOR_ACCOUNTS, RECEIVABLES, credit, debit, kind_of
from bursa.market.refusals import (
    AMOUNT_MICROS_MAX,
    check_amount,
    check_country,
    check_may_order,
    check_number,
    check_slug,
    check_text,
    known_party,
    refuse,
)
from bursa.market.state import Party, Rate, State, Transfer
from bursa.market.timers import TimerKind
from bursa.market.trading import cancel_all
from bursa.market.types import INT_MAX, EntryKind, Posting, Rejection
from bursa.money import MICROS_PER_CENT, Currency

_EARNINGS = int(TimerKind.EARNINGS)
#: Postings in one operator's entry.
ENTRY_POSTINGS_MAX = 64
#: A mid between 0.01 and 100 US$: any currency that the exchange funds in lies well within.
_MID_MICROS_MIN, _MID_MICROS_MAX = 10_000, 100_000_000


def _debt(state: State, party: Party, currency: Currency) -> int:
    return -state.ledger.balance(currency, f"customer_receivable:{party.party_id}")


def _renew_debt_flag(state: State, party: Party) -> None:
    party.is_in_debt = any(_debt(state, party, currency) for currency in Currency)


def _check_room(state: State, party: Party, currency: Currency, provider: str, micros: int) -> Rejected | None:
    """Refuse a sum that would take the provider's or the party's account beyond 64 bits."""
    accounts = (f"psp_clearing:{provider}", f"wallet:{party.party_id}", f"customer_receivable:{party.party_id}")
    if all(abs(state.ledger.balance(currency, account)) + micros <= INT_MAX for account in accounts):
        return None
    return refuse(Rejection.LIMIT_REACHED, "micros", "a sum that the ledger's 64-bit accounts have room for")


def _credit_party(party: Party, currency: Currency, micros: int, debt: int) -> tuple[Posting, ...]:
    """Return the credits of an incoming sum: debt first, then the wallet."""
    paid = min(debt, micros)
    postings: tuple[Posting, ...] = ()
    if paid:
        postings += (credit(currency, f"customer_receivable:{party.party_id}", paid),)
    if micros > paid:
        postings += (credit(currency, f"wallet:{party.party_id}", micros - paid),)
    return postings


# ---- customers -----------------------------------------------------------------------------------------


def on_credit_top_up(state: State, command: CreditTopUp, at_ns: int) -> Done | Rejected:
    """Credit a captured payment."""
    refusal = check_amount("micros", command.micros, cents_min=state.rules.top_up_cents_min) or check_slug(
        "provider", command.provider
    )
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    currency = command.currency
    if refusal := _check_room(state, party, currency, command.provider, command.micros):
        return refusal
    debt = _debt(state, party, currency)
    postings: tuple[Posting, ...] = (debit(currency, f"psp_clearing:{command.provider}", command.micros),)
    postings += _credit_party(party, currency, command.micros, debt)
    if currency not in party.currencies:
        party.currencies = (*party.currencies, currency)
    state.post(EntryKind.TOP_UP, postings, at_ns, party_id=party.party_id)
    _renew_debt_flag(state, party)
    assert currency in party.currencies, party
    assert _debt(state, party, currency) == max(0, debt - command.micros), party
    return Done()


def on_request_refund(state: State, command: RequestRefund, at_ns: int) -> Done | Rejected:
    """Take unused balance out of the wallet."""
    refusal = check_amount("micros", command.micros)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    currency = command.currency
    if refusal := check_may_order(party):
        return refusal
    if currency not in party.currencies:
        return refuse(Rejection.CURRENCY_NOT_FUNDED, "currency", "a currency that the party has topped up")
    available = state.ledger.balance(currency, f"wallet:{party.party_id}")
    if command.micros > available:
        return _insufficient(command.micros - available)
    number = _start_transfer(state, party, currency, command.micros, at_ns, is_payout=False)
    assert number in state.transfers, number
    assert state.ledger.balance(currency, f"wallet:{party.party_id}") == available - command.micros, party
    return Done(number)


def _insufficient(micros: int) -> Rejected:
    return refuse(Rejection.INSUFFICIENT_FUNDS, "micros", f"{micros} micro-units less", micros)


def _start_transfer(state: State, party: Party, currency: Currency, micros: int, at_ns: int, *, is_payout: bool) -> int:
    """Move a sum into the account of sums on their way; return the transfer's id."""
    state.counters.transfer += 1
    number = state.counters.transfer
    source, target = ("seller_available", "payout_in_transit") if is_payout else ("wallet", "refund_in_transit")
    kind = EntryKind.PAYOUT_REQUESTED if is_payout else EntryKind.REFUND_REQUESTED
    postings = (
        debit(currency, f"{source}:{party.party_id}", micros),
        credit(currency, f"{target}:{party.party_id}", micros),
    )
    state.transfers[number] = Transfer(number, party.party_id, currency, micros, is_payout)
    state.post(kind, postings, at_ns, party_id=party.party_id)
    return number


def _known_transfer(state: State, field: str, number: int, *, is_payout: bool) -> Transfer | Rejected:
    transfer = state.transfers.get(number)
    if transfer is None or transfer.is_payout != is_payout:
        what = "payout" if is_payout else "refund"
        return refuse(Rejection.UNKNOWN_TRANSFER, field, f"the id of a {what} on its way")
    return transfer


def _credit_seller(state: State, party_id: int, currency: Currency, micros: int) -> tuple[Posting, ...]:
    """Return the credits of a sum that becomes payable: what was clawed back is repaid first."""
    owed = -state.ledger.balance(currency, f"seller_receivable:{party_id}")
    repaid = min(owed, micros)
    postings: tuple[Posting, ...] = ()
    if repaid:
        postings += (credit(currency, f"seller_receivable:{party_id}", repaid),)
    if micros > repaid:
        postings += (credit(currency, f"seller_available:{party_id}", micros - repaid),)
    return postings


def _finish_transfer(
    state: State, transfer: Transfer, incoming: tuple[Posting, ...], kind: EntryKind, at_ns: int
) -> Done:
    """Move a sum on its way to where it ends."""
    source = "payout_in_transit" if transfer.is_payout else "refund_in_transit"
    postings = (debit(transfer.currency, f"{source}:{transfer.party_id}", transfer.micros), *incoming)
    del state.transfers[transfer.transfer_id]
    state.post(kind, postings, at_ns, party_id=transfer.party_id)
    return Done(transfer.transfer_id)


def on_settle_refund(state: State, command: SettleRefund, at_ns: int) -> Done | Rejected:
    """Book a refund that was paid out."""
    refusal = check_slug("provider", command.provider)
    if refusal:
        return refusal
    transfer = _known_transfer(state, "refund_id", command.refund_id, is_payout=False)
    if isinstance(transfer, Rejected):
        return transfer
    incoming = (credit(transfer.currency, f"psp_clearing:{command.provider}", transfer.micros),)
    done = _finish_transfer(state, transfer, incoming, EntryKind.REFUND_SETTLED, at_ns)
    assert command.refund_id not in state.transfers, transfer
    assert not transfer.is_payout, transfer
    return done


def on_fail_refund(state: State, command: FailRefund, at_ns: int) -> Done | Rejected:
    """Put a refund that could not be paid out back into the wallet."""
    transfer = _known_transfer(state, "refund_id", command.refund_id, is_payout=False)
    if isinstance(transfer, Rejected):
        return transfer
    party = state.parties[transfer.party_id]
    incoming = _credit_party(party, transfer.currency, transfer.micros, _debt(state, party, transfer.currency))
    done = _finish_transfer(state, transfer, incoming, EntryKind.REFUND_FAILED, at_ns)
    _renew_debt_flag(state, party)
    assert command.refund_id not in state.transfers, transfer
    assert not transfer.is_payout, transfer
    return done


def on_post_chargeback(state: State, command: PostChargeback, at_ns: int) -> Done | Rejected:
    """Take a disputed sum from the wallet, then from canceled orders' holds; the rest is debt."""
    refusal = check_amount("micros", command.micros) or check_slug("provider", command.provider)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    currency = command.currency
    if currency not in party.currencies:
        return refuse(Rejection.CURRENCY_NOT_FUNDED, "currency", "a currency that the party has topped up")
    if refusal := _check_room(state, party, currency, command.provider, command.micros):
        return refusal
    wallet = f"wallet:{party.party_id}"
    if state.ledger.balance(currency, wallet) < command.micros:
        cancel_all(state, party.party_id, at_ns)
    taken = min(command.micros, state.ledger.balance(currency, wallet))
    short = command.micros - taken
    postings: tuple[Posting, ...] = ()
    if taken:
        postings += (debit(currency, wallet, taken),)
    if short:
        postings += (debit(currency, f"customer_receivable:{party.party_id}", short),)
    postings += (credit(currency, f"psp_clearing:{command.provider}", command.micros),)
    state.post(EntryKind.CHARGEBACK, postings, at_ns, party_id=party.party_id)
    _renew_debt_flag(state, party)
    assert party.is_in_debt or short == 0, party
    assert short == 0 or not state.open_orders[party.party_id], party
    return Done()


def on_win_chargeback(state: State, command: WinChargeback, at_ns: int) -> Done | Rejected:
    """Credit the sum of a won dispute to debt, then to the wallet."""
    refusal = check_amount("micros", command.micros) or check_slug("provider", command.provider)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    currency = command.currency
    if currency not in party.currencies:
        return refuse(Rejection.CURRENCY_NOT_FUNDED, "currency", "a currency that the party has topped up")
    if refusal := _check_room(state, party, currency, command.provider, command.micros):
        return refusal
    debt = _debt(state, party, currency)
    postings: tuple[Posting, ...] = (debit(currency, f"psp_clearing:{command.provider}", command.micros),)
    postings += _credit_party(party, currency, command.micros, debt)
    state.post(EntryKind.CHARGEBACK_WON, postings, at_ns, party_id=party.party_id)
    _renew_debt_flag(state, party)
    assert _debt(state, party, currency) == max(0, debt - command.micros), party
    assert currency in party.currencies, party
    return Done()


def on_write_off_debt(state: State, command: WriteOffDebt, at_ns: int) -> Done | Rejected:
    """Give a debt up."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    debt = _debt(state, party, command.currency)
    if debt == 0:
        return refuse(Rejection.WRONG_STATE, "party_id", f"a party in debt in {command.currency}")
    postings = (
        debit(command.currency, "cost.chargeback_loss", debt),
        credit(command.currency, f"customer_receivable:{party.party_id}", debt),
    )
    state.post(EntryKind.DEBT_WRITTEN_OFF, postings, at_ns, party_id=party.party_id)
    _renew_debt_flag(state, party)
    assert debt > 0, debt
    assert _debt(state, party, command.currency) == 0, party
    return Done()


def on_post_invoice(state: State, command: PostInvoice, at_ns: int) -> Done | Rejected:
    """Move invoiced VAT from accrued to payable; the fraction of a cent between them is the renter's."""
    refusal = (
        check_country("country", command.country)
        or check_slug("scheme", command.scheme.lower())
        or check_text("invoice", command.invoice, may_be_empty=True)
        or check_number(Rejection.AMOUNT_OUT_OF_RANGE, "accrued_micros", command.accrued_micros, 1, AMOUNT_MICROS_MAX)
    )
    low = max(0, command.accrued_micros - MICROS_PER_CENT + 1)
    high = command.accrued_micros + MICROS_PER_CENT - 1
    if not refusal and (command.invoiced_micros % MICROS_PER_CENT or not low <= command.invoiced_micros <= high):
        refusal = refuse(
            Rejection.AMOUNT_OUT_OF_RANGE, "invoiced_micros", "whole cents, less than one cent from accrued_micros"
        )
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    currency = command.currency
    accrued = state.ledger.balance(currency, f"vat_accrued:{command.country}")
    if command.accrued_micros > accrued:
        return refuse(
            Rejection.AMOUNT_OUT_OF_RANGE, "accrued_micros", f"at most {accrued}, accrued in {command.country}"
        )
    postings = _invoice_postings(state, party, command)
    state.post(EntryKind.INVOICE, postings, at_ns, party_id=party.party_id, memo=command.invoice)
    assert state.ledger.balance(currency, f"vat_accrued:{command.country}") == accrued - command.accrued_micros
    assert state.ledger.balance(currency, f"wallet:{party.party_id}") >= 0, party
    return Done()


def _invoice_postings(state: State, party: Party, command: PostInvoice) -> tuple[Posting, ...]:
    currency = command.currency
    wallet = f"wallet:{party.party_id}"
    difference = command.accrued_micros - command.invoiced_micros
    postings: tuple[Posting, ...] = (debit(currency, f"vat_accrued:{command.country}", command.accrued_micros),)
    if command.invoiced_micros:
        account = f"vat_payable:{command.country}:{command.scheme}"
        postings += (credit(currency, account, command.invoiced_micros),)
    if difference > 0:
        postings += (credit(currency, wallet, difference),)
    elif difference < 0:
        # The wallet never goes below zero: what it lacks of a fraction of a cent is ours to bear.
        taken = min(-difference, state.ledger.balance(currency, wallet))
        if taken:
            postings += (debit(currency, wallet, taken),)
        if taken < -difference:
            postings += (debit(currency, "rounding", -difference - taken),)
    return postings


# ---- sellers -------------------------------------------------------------------------------------------


def earnings_are_due(state: State, seller: Party, at_ns: int) -> None:
    """Clear earnings whose dispute window is over."""
    assert seller.pending, seller
    clears_at_ns, micros = seller.pending.pop(0)
    assert clears_at_ns <= at_ns, seller
    if seller.pending:
        state.timers.add(seller.pending[0][0], _EARNINGS, seller.party_id)
    postings = (
        debit(Currency.USD, f"seller_pending:{seller.party_id}", micros),
        *_credit_seller(state, seller.party_id, Currency.USD, micros),
    )
    state.post(EntryKind.EARNINGS_CLEARED, postings, at_ns, party_id=seller.party_id)


def on_request_payout(state: State, command: RequestPayout, at_ns: int) -> Done | Rejected:
    """Send cleared earnings to the seller."""
    refusal = check_amount("micros", command.micros, cents_min=state.rules.payout_cents_min)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    if refusal := check_may_order(party):
        return refusal
    available = state.ledger.balance(command.currency, f"seller_available:{party.party_id}")
    if command.micros > available:
        return _insufficient(command.micros - available)
    number = _start_transfer(state, party, command.currency, command.micros, at_ns, is_payout=True)
    assert number in state.transfers, number
    assert state.ledger.balance(command.currency, f"seller_available:{party.party_id}") == available - command.micros
    return Done(number)


def on_settle_payout(state: State, command: SettlePayout, at_ns: int) -> Done | Rejected:
    """Book a payout that the bank executed."""
    transfer = _known_transfer(state, "payout_id", command.payout_id, is_payout=True)
    if isinstance(transfer, Rejected):
        return transfer
    incoming = (credit(transfer.currency, "bank", transfer.micros),)
    done = _finish_transfer(state, transfer, incoming, EntryKind.PAYOUT_SETTLED, at_ns)
    assert command.payout_id not in state.transfers, transfer
    assert transfer.is_payout, transfer
    return done


def on_return_payout(state: State, command: ReturnPayout, at_ns: int) -> Done | Rejected:
    """Make a returned payout available again."""
    transfer = _known_transfer(state, "payout_id", command.payout_id, is_payout=True)
    if isinstance(transfer, Rejected):
        return transfer
    incoming = _credit_seller(state, transfer.party_id, transfer.currency, transfer.micros)
    done = _finish_transfer(state, transfer, incoming, EntryKind.PAYOUT_RETURNED, at_ns)
    assert command.payout_id not in state.transfers, transfer
    assert transfer.is_payout, transfer
    return done


# ---- operator ------------------------------------------------------------------------------------------


def on_set_rate(state: State, command: SetRate, at_ns: int) -> Done | Rejected:
    """Set the mid of a currency."""
    if command.currency is Currency.USD:
        return refuse(Rejection.INVALID_FIELD, "currency", "EUR or GBP: prices are in USD")
    refusal = check_number(
        Rejection.INVALID_FIELD, "mid_micros", command.mid_micros, _MID_MICROS_MIN, _MID_MICROS_MAX
    ) or check_number(Rejection.INVALID_FIELD, "as_of_ns", command.as_of_ns, 1, at_ns)
    if refusal:
        return refusal
    known = state.rates.get(command.currency)
    if known is not None and command.as_of_ns < known.as_of_ns:
        return refuse(Rejection.INVALID_FIELD, "as_of_ns", f"at least {known.as_of_ns}, the rate in force")
    state.rates[command.currency] = Rate(command.mid_micros, command.as_of_ns)
    assert command.mid_micros > 0, command
    assert command.as_of_ns <= at_ns, command
    state.events.append(RateSet(command.currency, command.mid_micros, command.as_of_ns))
    return Done()


def on_post_entry(state: State, command: PostEntry, at_ns: int) -> Done | Rejected:
    """Post an operator's own entry, made by one person and approved by another."""
    refusal = (
        check_text("made_by", command.made_by)
        or check_text("approved_by", command.approved_by)
        or check_text("memo", command.memo)
    )
    if refusal:
        return refusal
    if command.made_by.strip().casefold() == command.approved_by.strip().casefold():
        return refuse(Rejection.ENTRY_NOT_ALLOWED, "approved_by", "another person than made_by")
    refusal = _check_postings(state, command.postings)
    if refusal:
        return refusal
    postings = _net(command.postings)
    memo = f"{command.memo} (made by {command.made_by}, approved by {command.approved_by})"
    before = state.counters.entry
    state.post(EntryKind.OPERATOR, postings, at_ns, memo=memo)
    assert state.counters.entry == before + 1, before
    assert len(postings) <= len(command.postings), command
    return Done(state.counters.entry)


def _net(postings: tuple[Posting, ...]) -> tuple[Posting, ...]:
    """Return one posting an account, by currency: an entry moves each account once, whatever the order of its lines."""
    sums: dict[tuple[str, str], int] = {}
    for posting in postings:
        key = (posting.currency, posting.account)
        sums[key] = sums.get(key, 0) + posting.credit_micros - posting.debit_micros
    return tuple(
        Posting(currency, account, max(0, -amount), max(0, amount))
        for (currency, account), amount in sorted(sums.items())
        if amount
    )


def _is_operators(state: State, account: str) -> bool:
    """Return whether an operator's entry may touch an account; one of a party needs the party to exist."""
    kind, _, rest = account.partition(":")
    if kind not in OPERATOR_ACCOUNTS or check_text("account", account):
        return False
    return kind not in {"seller_available", "seller_receivable"} or (rest.isdecimal() and int(rest) in state.parties)


def _check_postings(state: State, postings: tuple[Posting, ...]) -> Rejected | None:
    """Refuse an operator's entry that does not balance, overdraws, or touches what is not the operator's."""
    if not 2 <= len(postings) <= ENTRY_POSTINGS_MAX:  # noqa: PLR2004 - debit and credit
        return refuse(Rejection.ENTRY_NOT_ALLOWED, "postings", f"2 to {ENTRY_POSTINGS_MAX} postings")
    after: dict[tuple[str, str], int] = {}
    sums: dict[str, int] = {}
    for posting in postings:
        if posting.currency not in state.ledger.balances:
            return refuse(Rejection.ENTRY_NOT_ALLOWED, "postings.currency", "EUR, GBP or USD")
        if not _is_operators(state, posting.account):
            return refuse(Rejection.ENTRY_NOT_ALLOWED, "postings.account", "an account of the operator's own")
        low, high = sorted((posting.debit_micros, posting.credit_micros))
        if low != 0 or not 0 < high <= AMOUNT_MICROS_MAX:
            return refuse(Rejection.ENTRY_NOT_ALLOWED, "postings", "one positive amount and one zero in each posting")
        amount = posting.credit_micros - posting.debit_micros
        key = (posting.currency, posting.account)
        after[key] = after.get(key, state.ledger.balance(*key)) + amount
        sums[posting.currency] = sums.get(posting.currency, 0) + amount
    if any(sums.values()) or not _net(postings):
        return refuse(
            Rejection.ENTRY_NOT_ALLOWED, "postings", "debits equal to credits in each currency, and not nothing"
        )
    for (_, account), balance in after.items():
        kind = kind_of(account)
        if (kind in LIABILITIES and balance < 0) or (kind in RECEIVABLES and balance > 0) or abs(balance) > INT_MAX:
            return refuse(Rejection.ENTRY_NOT_ALLOWED, "postings", f"a balance of {account} on its own side of zero")
    return None
