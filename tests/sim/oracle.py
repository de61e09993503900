"""What must come out, worked out from the mirror alone: funds held, the cheapest fit, the codes that are plausible."""

from typing import Final

from bursa.market import (
    GPUS_PER_HOST_MAX,
    HOUR_NS,
    BestAsk,
    BidAccepted,
    BookState,
    PlaceBid,
    Rejection,
    TimeInForce,
    Trade,
)
from tests.sim.arithmetic import net_in_wallet, vat
from tests.sim.mirror import Mirror

R = Rejection
#: A command with any of its fields wrong, or with an id that was used for something else.
ALWAYS: Final = frozenset({R.INVALID_FIELD, R.EXISTS_WITH_DIFFERENT_FIELDS})
_NO_PARTY: Final = frozenset({R.UNKNOWN_PARTY})
_AMOUNT: Final = frozenset({R.UNKNOWN_PARTY, R.AMOUNT_OUT_OF_RANGE, R.CURRENCY_NOT_FUNDED})
_TRANSFER: Final = frozenset({R.UNKNOWN_TRANSFER, R.WRONG_STATE})
_BOOK: Final = frozenset({R.UNKNOWN_INSTRUMENT, R.WRONG_STATE})
_HOST: Final = frozenset({R.UNKNOWN_HOST})
_RENTAL: Final = frozenset({R.UNKNOWN_RENTAL, R.RENTAL_ALREADY_ENDED, R.WRONG_STATE})
_RENTERS: Final = _RENTAL | {R.NOT_YOURS, R.UNKNOWN_PARTY}
_ORDER: Final = frozenset({
    R.UNKNOWN_PARTY, R.UNKNOWN_INSTRUMENT, R.BOOK_CLOSED, R.BOOK_HALTED, R.PRICE_NOT_ON_TICK, R.PRICE_OUT_OF_BAND,
    R.QUANTITY_OUT_OF_RANGE, R.HOURS_OUT_OF_RANGE, R.EXPIRES_TOO_LATE, R.EXPIRES_TOO_EARLY, R.TOO_MANY_OPEN_ORDERS,
    R.PARTY_IN_DEBT, R.PARTY_SUSPENDED, R.AMOUNT_OUT_OF_RANGE, R.LIMIT_REACHED,
})  # fmt: skip
_BID: Final = frozenset({R.INSUFFICIENT_FUNDS, R.CURRENCY_NOT_FUNDED, R.NO_RATE, R.NO_TAX_PROFILE, R.NOTHING_TO_FILL})
_ASK: Final = frozenset({
    R.UNKNOWN_HOST, R.NOT_YOURS, R.HOST_HAS_NO_FREE_GPUS, R.HOST_NOT_HEALTHY, R.HOST_ALREADY_OFFERED,
})  # fmt: skip
_AMEND: Final = frozenset({R.UNKNOWN_ORDER, R.ORDER_ALREADY_CLOSED, R.NOT_YOURS, R.NO_CANCEL_PERIOD})

#: Codes that each command may be refused with.
PLAUSIBLE: Final[dict[str, frozenset[Rejection]]] = {
    "RegisterParty": frozenset({R.LIMIT_REACHED}),
    "UpdateParty": _NO_PARTY | {R.WRONG_STATE},
    "SetTaxProfile": _NO_PARTY,
    "SuspendParty": _NO_PARTY | {R.WRONG_STATE, R.PARTY_SUSPENDED},
    "ReinstateParty": _NO_PARTY | {R.WRONG_STATE, R.PARTY_SUSPENDED},
    "CreditTopUp": _AMOUNT | {R.LIMIT_REACHED},
    "RequestRefund": _AMOUNT | {R.INSUFFICIENT_FUNDS, R.PARTY_IN_DEBT, R.PARTY_SUSPENDED},
    "SettleRefund": _TRANSFER,
    "FailRefund": _TRANSFER,
    "PostChargeback": _AMOUNT,
    "WinChargeback": _AMOUNT,
    "WriteOffDebt": _NO_PARTY | {R.WRONG_STATE, R.AMOUNT_OUT_OF_RANGE},
    "SetRate": frozenset({R.WRONG_STATE}),
    "PostInvoice": _AMOUNT | {R.INSUFFICIENT_FUNDS, R.WRONG_STATE},
    "RequestPayout": _AMOUNT | {R.INSUFFICIENT_FUNDS, R.PARTY_IN_DEBT, R.PARTY_SUSPENDED},
    "SettlePayout": _TRANSFER,
    "ReturnPayout": _TRANSFER,
    "PostEntry": frozenset({R.ENTRY_NOT_ALLOWED, R.INSUFFICIENT_FUNDS, R.AMOUNT_OUT_OF_RANGE}),
    "ListInstrument": frozenset({R.LIMIT_REACHED}),
    "PreopenBook": _BOOK,
    "OpenBook": _BOOK,
    "HaltBook": _BOOK,
    "ResumeBook": _BOOK,
    "ChangeRules": frozenset(),
    "ListHost": frozenset({R.UNKNOWN_PARTY, R.UNKNOWN_INSTRUMENT, R.PARTY_SUSPENDED, R.LIMIT_REACHED}),
    "CheckHost": _HOST | {R.WRONG_STATE, R.QUANTITY_OUT_OF_RANGE},
    "SuspendHost": _HOST | {R.WRONG_STATE},
    "RetireHost": _HOST | {R.UNKNOWN_PARTY, R.NOT_YOURS, R.WRONG_STATE, R.HOST_ALREADY_OFFERED},
    "ReportSilence": _HOST | {R.WRONG_STATE},
    "ReportHeartbeat": _HOST | {R.WRONG_STATE},
    "PlaceAsk": _ORDER | _ASK,
    "PlaceBid": _ORDER | _BID,
    "AmendAsk": _ORDER | _ASK | _AMEND,
    "AmendBid": _ORDER | _BID | _AMEND,
    "CancelOrder": _AMEND | {R.UNKNOWN_PARTY, R.BOOK_CLOSED},
    "StartRental": _RENTAL | {R.HOST_NOT_HEALTHY},
    "StopRental": _RENTERS,
    "ExtendRental": _RENTERS | _BID | {R.HOURS_OUT_OF_RANGE, R.ASK_WITHDRAWN, R.PARTY_IN_DEBT, R.PARTY_SUSPENDED,
                                       R.PRICE_NOT_ON_TICK, R.EXPIRES_TOO_LATE, R.LIMIT_REACHED,
                                       R.HOST_NOT_HEALTHY},
    "SetAutoExtend": _RENTERS | {R.HOURS_OUT_OF_RANGE, R.PRICE_NOT_ON_TICK, R.AMOUNT_OUT_OF_RANGE},
    "FailRental": _RENTAL,
    "ReclaimRental": _RENTERS,
    "EndRental": _RENTAL,
    "ReportWiped": frozenset({R.UNKNOWN_RENTAL, R.WRONG_STATE, R.RENTAL_ALREADY_ENDED}),
    "Tick": frozenset(),
}  # fmt: skip


def hold_micros(mirror: Mirror, bid: BidAccepted) -> int:
    """Return what a bid must hold when it is accepted, in its currency; integers, written from the rules anew."""
    view = mirror.bids.get(bid.order_id)
    vat_ppm, rate = (view.vat_ppm, view.rate_micros) if view else mirror.tax_and_rate(bid)
    net = net_in_wallet(bid.limit_micros, rate)
    return (net + vat(net, vat_ppm)) * bid.gpus * bid.hours * bid.lots


def cheapest_fit(mirror: Mirror, bid: PlaceBid, at_ns: int) -> int:
    """Return the lowest price at which one lot of the bid can be had now, by looking at every ask; 0 = none."""
    buyer = mirror.parties[bid.party_id]
    end_ns = at_ns + bid.hours * HOUR_NS
    best = 0
    for ask in mirror.asks_by_book[bid.instrument].values():
        terms = ask.terms
        if ask.price_micros > bid.limit_micros or (best and ask.price_micros >= best):
            continue
        if bid.gpus < terms.min_gpus or not terms.min_hours <= bid.hours <= terms.max_hours or end_ns > terms.until_ns:
            continue
        if buyer.is_linked_to(mirror.parties[terms.party_id]):
            continue
        for host_id, offered in ask.offers.items():
            host = mirror.hosts[host_id]
            if host.free_gpus(offered) >= bid.gpus and host.passes(bid.filters):
                best = ask.price_micros
                break
    return best


def is_predictable(mirror: Mirror, bid: PlaceBid) -> bool:
    """Tell whether `cheapest_fit` decides the bid: buy now, one lot, nothing that the mirror cannot see."""
    return (
        bid.time_in_force is TimeInForce.IOC
        and bid.lots == 1
        and 1 <= bid.gpus <= GPUS_PER_HOST_MAX
        and bid.hours >= 1
        and bid.filters.reliability_min == 0
        and bid.party_id in mirror.parties
        and mirror.books.get(bid.instrument) is BookState.OPEN
    )


def fault_of_buy_now(cheapest: int, best: BestAsk | None, limit_micros: int, code: str, trades: list[Trade]) -> str:
    """Compare a buy-now with the prediction and with the engine's own quote; say what differs, or nothing.

    Any refusal but NOTHING_TO_FILL came before matching and is not judged here.
    """
    quoted = best.price_micros if best and best.price_micros <= limit_micros else 0
    prices = [trade.price_micros for trade in trades]
    if code in {"OK", "NOTHING_TO_FILL"} and quoted != cheapest:
        return f"best_ask quotes {quoted}, the cheapest fit is {cheapest}"
    if code == "NOTHING_TO_FILL" and cheapest:
        return f"nothing filled, yet an ask at {cheapest} fits"
    if code == "OK" and prices != [cheapest]:
        return f"filled at {prices}, the cheapest fit is {cheapest}"
    if code == "OK" and best and (trades[0].ask_id, trades[0].host_id) != (best.order_id, best.host_id):
        return f"filled by {trades[0]}, best_ask named {best}"
    return ""
