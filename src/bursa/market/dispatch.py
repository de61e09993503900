"""Which handler carries out which command: three exhaustive matches, the frequent commands first.

mypy proves that no command is forgotten: the last case of each match would be a type error otherwise.
"""

from __future__ import annotations

from typing import assert_never

from bursa.market.booking import (
    on_halt_book,
    on_list_instrument,
    on_open_book,
    on_preopen_book,
    on_resume_book,
)
from bursa.market.clock import on_tick
from bursa.market.commands import (
    AmendAsk,
    AmendBid,
    CancelOrder,
    ChangeRules,
    CheckHost,
    Command,
    CreditTopUp,
    EndRental,
    ExtendRental,
    FailRefund,
    FailRental,
    HaltBook,
    ListHost,
    ListInstrument,
    MoneyCommand,
    OpenBook,
    PlaceAsk,
    PlaceBid,
    PostChargeback,
    PostEntry,
    PostInvoice,
    PreopenBook,
    ReclaimRental,
    RegisterParty,
    ReinstateParty,
    ReportHeartbeat,
    ReportSilence,
    ReportWiped,
    RequestPayout,
    RequestRefund,
    ResumeBook,
    RetireHost,
    ReturnPayout,
    SetAutoExtend,
    SetRate,
    SetTaxProfile,
    SettlePayout,
    SettleRefund,
    StartRental,
    StopRental,
    SuspendHost,
    SuspendParty,
    Tick,
    UpdateParty,
    VenueCommand,
    WinChargeback,
    WriteOffDebt,
)
from bursa.market.events import Done, Placed, Rejected
from bursa.market.funding import (
    on_credit_top_up,
    on_fail_refund,
    on_post_chargeback,
    on_post_entry,
    on_post_invoice,
    on_request_payout,
    on_request_refund,
    on_return_payout,
    on_set_rate,
    on_settle_payout,
    on_settle_refund,
    on_win_chargeback,
    on_write_off_debt,
)
from bursa.market.hosting import (
    on_check_host,
    on_list_host,
    on_report_heartbeat,
    on_report_silence,
    on_retire_host,
    on_suspend_host,
)
from bursa.market.parties import (
    on_change_rules,
    on_register_party,
    on_reinstate_party,
    on_set_tax_profile,
    on_suspend_party,
    on_update_party,
)
from bursa.market.renting import (
    on_end_rental,
    on_extend_rental,
    on_fail_rental,
    on_reclaim_rental,
    on_report_wiped,
    on_set_auto_extend,
    on_start_rental,
    on_stop_rental,
)
from bursa.market.state import State
from bursa.market.trading import (
    on_amend_ask,
    on_amend_bid,
    on_cancel_order,
    on_place_ask,
    on_place_bid,
)


def dispatch(state: State, command: Command, at_ns: int) -> Done | Placed | Rejected:  # noqa: C901, PLR0912 - a case for each command
    """Carry out a command or return its refusal."""
    match command:
        case PlaceBid():
            return on_place_bid(state, command, at_ns)
        case CancelOrder():
            return on_cancel_order(state, command, at_ns)
        case StartRental():
            return on_start_rental(state, command, at_ns)
        case StopRental():
            return on_stop_rental(state, command, at_ns)
        case ReportWiped():
            return on_report_wiped(state, command, at_ns)
        case AmendAsk():
            return on_amend_ask(state, command, at_ns)
        case AmendBid():
            return on_amend_bid(state, command, at_ns)
        case PlaceAsk():
            return on_place_ask(state, command, at_ns)
        case ExtendRental():
            return on_extend_rental(state, command, at_ns)
        case SetAutoExtend():
            return on_set_auto_extend(state, command, at_ns)
        case FailRental():
            return on_fail_rental(state, command, at_ns)
        case ReclaimRental():
            return on_reclaim_rental(state, command, at_ns)
        case EndRental():
            return on_end_rental(state, command, at_ns)
        case Tick():
            return on_tick(state, command, at_ns)
        case _:
            return _dispatch_venue(state, command, at_ns)


def _dispatch_venue(state: State, command: VenueCommand | MoneyCommand, at_ns: int) -> Done | Placed | Rejected:  # noqa: C901, PLR0912 - a case for each command
    match command:
        case ListHost():
            return on_list_host(state, command, at_ns)
        case CheckHost():
            return on_check_host(state, command, at_ns)
        case SuspendHost():
            return on_suspend_host(state, command, at_ns)
        case RetireHost():
            return on_retire_host(state, command, at_ns)
        case ReportSilence():
            return on_report_silence(state, command, at_ns)
        case ReportHeartbeat():
            return on_report_heartbeat(state, command, at_ns)
        case ListInstrument():
            return on_list_instrument(state, command, at_ns)
        case PreopenBook():
            return on_preopen_book(state, command, at_ns)
        case OpenBook():
            return on_open_book(state, command, at_ns)
        case HaltBook():
            return on_halt_book(state, command, at_ns)
        case ResumeBook():
            return on_resume_book(state, command, at_ns)
        case ChangeRules():
            return on_change_rules(state, command, at_ns)
        case _:
            return _dispatch_money(state, command, at_ns)


def _dispatch_money(state: State, command: MoneyCommand, at_ns: int) -> Done | Placed | Rejected:  # noqa: C901, PLR0912 - a case for each command
    match command:
        case RegisterParty():
            return on_register_party(state, command, at_ns)
        case UpdateParty():
            return on_update_party(state, command, at_ns)
        case SetTaxProfile():
            return on_set_tax_profile(state, command, at_ns)
        case SuspendParty():
            return on_suspend_party(state, command, at_ns)
        case ReinstateParty():
            return on_reinstate_party(state, command, at_ns)
        case CreditTopUp():
            return on_credit_top_up(state, command, at_ns)
        case RequestRefund():
            return on_request_refund(state, command, at_ns)
        case SettleRefund():
            return on_settle_refund(state, command, at_ns)
        case FailRefund():
            return on_fail_refund(state, command, at_ns)
        case PostChargeback():
            return on_post_chargeback(state, command, at_ns)
        case WinChargeback():
            return on_win_chargeback(state, command, at_ns)
        case WriteOffDebt():
            return on_write_off_debt(state, command, at_ns)
        case SetRate():
            return on_set_rate(state, command, at_ns)
        case PostInvoice():
            return on_post_invoice(state, command, at_ns)
        case RequestPayout():
            return on_request_payout(state, command, at_ns)
        case SettlePayout():
            return on_settle_payout(state, command, at_ns)
        case ReturnPayout():
            return on_return_payout(state, command, at_ns)
        case PostEntry():
            return on_post_entry(state, command, at_ns)
        case _:
            assert_never(command)
