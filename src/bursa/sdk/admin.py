"""Calls of the operator; they need a key of the operator with scope ``admin``.

In the examples, ``operator`` is a `Client` with such a key, ``seller`` one of a seller, ``client`` one of a renter.
"""

from __future__ import annotations

from bursa.sdk.call import Call, change, read, segment
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
    RatesRequest,
    Status,
    TaxRequest,
)


def status() -> Call[Status]:
    """Tell how the exchange stands: seq, digest, open orders, and whether the books balance.

    >>> {line.sum for line in operator.status().trial_balance} <= {"0.00"}
    True
    """
    return read("/v1/admin/status", Status)


def list_instrument(request: InstrumentRequest, *, idempotency_key: str | None = None) -> Call[Done]:
    """List an instrument, or set the reference price of one.

    >>> operator.list_instrument(InstrumentRequest(instrument="gpu-e", reference_price="1.00")).seq > 0
    True
    """
    return change("POST", "/v1/admin/instruments", Done, request, idempotency_key)


def preopen_book(
    instrument: str, request: PreopenRequest | None = None, *, idempotency_key: str | None = None
) -> Call[Done]:
    """Let orders rest in a book (or in ``"all"``) before it opens by an auction.

    >>> _ = operator.list_instrument(InstrumentRequest(instrument="gpu-a", reference_price="1.00"))
    >>> operator.preopen_book("gpu-a").seq > 0
    True
    """
    return _turn(instrument, "preopen", request or PreopenRequest(), idempotency_key)


def open_book(instrument: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Open a book (or ``"all"``), by an auction where orders rest.

    >>> _ = operator.list_instrument(InstrumentRequest(instrument="gpu-b", reference_price="1.00"))
    >>> operator.open_book("gpu-b").seq > 0
    True
    """
    return _turn(instrument, "open", None, idempotency_key)


def halt_book(instrument: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Halt trading in a book (or ``"all"``): orders may be canceled, not filled.

    >>> _ = operator.list_instrument(InstrumentRequest(instrument="gpu-c", reference_price="1.00"))
    >>> _ = operator.open_book("gpu-c")
    >>> operator.halt_book("gpu-c").seq > 0
    True
    """
    return _turn(instrument, "halt", None, idempotency_key)


def resume_book(instrument: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Resume a halted book (or ``"all"``), by an auction.

    >>> _ = operator.list_instrument(InstrumentRequest(instrument="gpu-d", reference_price="1.00"))
    >>> _, _ = operator.open_book("gpu-d"), operator.halt_book("gpu-d")
    >>> operator.resume_book("gpu-d").seq > 0
    True
    """
    return _turn(instrument, "resume", None, idempotency_key)


def list_parties(*, limit: int | None = None, cursor: str | None = None) -> Call[PartyPage]:
    """Return a page of all parties; `iterate_parties` gives them all.

    >>> len(operator.list_parties(limit=5).items) <= 5
    True
    """
    return read("/v1/admin/parties", PartyPage, limit=limit, cursor=cursor)


def show_party(party: str) -> Call[PartyView]:
    """Return one party.

    >>> party = operator.register_party(PartyRequest(name="Frida"))
    >>> operator.show_party(party.id).name
    'Frida'
    """
    return read(f"/v1/admin/parties/{segment(party, 'party')}", PartyView)


def register_party(request: PartyRequest, *, idempotency_key: str | None = None) -> Call[PartyView]:
    """Register a buyer or seller; with a tax decision it can buy at once.

    >>> operator.register_party(PartyRequest(name="Anna")).name
    'Anna'
    """
    return change("POST", "/v1/admin/parties", PartyView, request, idempotency_key)


def set_tax_profile(party: str, request: TaxRequest, *, idempotency_key: str | None = None) -> Call[PartyView]:
    """Decide the tax of a party's purchases from now on.

    >>> party = operator.register_party(PartyRequest(name="Bruno"))
    >>> tax = TaxRequest(country="DE", scheme=VatScheme.DOMESTIC, vat_percent="19")
    >>> operator.set_tax_profile(party.id, tax).id == party.id
    True
    """
    return change("PUT", f"/v1/admin/parties/{segment(party, 'party')}/tax", PartyView, request, idempotency_key)


def suspend_party(party: str, *, idempotency_key: str | None = None) -> Call[PartyView]:
    """Stop a party from trading; its open orders are canceled.

    >>> party = operator.register_party(PartyRequest(name="Carla"))
    >>> operator.suspend_party(party.id).is_suspended
    True
    """
    return _judge(party, "suspend", idempotency_key)


def reinstate_party(party: str, *, idempotency_key: str | None = None) -> Call[PartyView]:
    """Let a suspended party trade again.

    >>> party = operator.register_party(PartyRequest(name="Dora"))
    >>> _ = operator.suspend_party(party.id)
    >>> operator.reinstate_party(party.id).is_suspended
    False
    """
    return _judge(party, "reinstate", idempotency_key)


def create_party_key(party: str, request: KeyRequest) -> Call[NewKey]:
    """Make a key for a party, for its first one above all. Once it was sent, the request is not repeated.

    >>> party = operator.register_party(PartyRequest(name="Emil"))
    >>> operator.create_party_key(party.id, KeyRequest(name="first", scopes=[Scope.READ])).key.name
    'first'
    """
    path = f"/v1/admin/parties/{segment(party, 'party')}/keys"
    return Call("POST", path, NewKey, body=request, is_repeatable=False)


def import_rates(request: RatesRequest, *, idempotency_key: str | None = None) -> Call[Done]:
    """Hand in ECB reference rates; wallets in EUR and GBP need one of the last days.

    >>> rate = RateRequest(currency=Currency.USD, rate="1.0850", as_of=date(2026, 11, 27))
    >>> operator.import_rates(RatesRequest(source="ECB", rates=[rate])).seq > 0
    True
    """
    return change("POST", "/v1/admin/rates", Done, request, idempotency_key)


def check_host(host: str, request: CheckRequest | None = None, *, idempotency_key: str | None = None) -> Call[Done]:
    """Say that a host has passed its check and may sell.

    >>> host = seller.list_host(HostRequest(instrument="h100-sxm", spec=HostFacts(gpus=8, country="DE")))
    >>> operator.check_host(host.id).seq > 0
    True
    """
    path = f"/v1/admin/hosts/{segment(host, 'host')}/check"
    return change("POST", path, Done, request or CheckRequest(), idempotency_key)


def suspend_host(host: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Stop a host from selling until it has passed a check again.

    >>> host = seller.list_host(HostRequest(instrument="h100-sxm", spec=HostFacts(gpus=8, country="DE")))
    >>> _ = operator.check_host(host.id)
    >>> operator.suspend_host(host.id).seq > 0
    True
    """
    return change("POST", f"/v1/admin/hosts/{segment(host, 'host')}/suspend", Done, None, idempotency_key)


def end_rental(
    rental: str, request: EndRentalRequest | None = None, *, idempotency_key: str | None = None
) -> Call[Done]:
    """End a rental as the operator.

    >>> operator.end_rental("rnt_999999")
    Traceback (most recent call last):
    bursa.errors.ApiError: ...
    """
    path = f"/v1/admin/rentals/{segment(rental, 'rental')}/end"
    return change("POST", path, Done, request or EndRentalRequest(), idempotency_key)


def settle_transfer(transfer: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Say that a refund or payout has arrived.

    >>> sent = client.request_refund(TransferRequest(amount="5.00", currency=Currency.USD))
    >>> operator.settle_transfer(sent.id).seq > 0
    True
    """
    return _transfer(transfer, "settle", idempotency_key)


def return_transfer(transfer: str, *, idempotency_key: str | None = None) -> Call[Done]:
    """Say that a refund or payout came back; the funds return to the balance.

    >>> sent = client.request_refund(TransferRequest(amount="5.00", currency=Currency.USD))
    >>> operator.return_transfer(sent.id).seq > 0
    True
    """
    return _transfer(transfer, "return", idempotency_key)


def metrics() -> Call[str]:
    """Return metrics in the text format of Prometheus; without a key only from the exchange's own machine.

    >>> "bursa_" in operator.metrics()
    True
    """
    return Call("GET", "/v1/metrics", str, accept="text/plain")


def _turn(instrument: str, action: str, request: PreopenRequest | None, key: str | None) -> Call[Done]:
    return change("POST", f"/v1/admin/books/{segment(instrument, 'instrument')}/{action}", Done, request, key)


def _judge(party: str, action: str, key: str | None) -> Call[PartyView]:
    return change("POST", f"/v1/admin/parties/{segment(party, 'party')}/{action}", PartyView, None, key)


def _transfer(transfer: str, action: str, key: str | None) -> Call[Done]:
    return change("POST", f"/v1/admin/transfers/{segment(transfer, 'transfer')}/{action}", Done, None, key)
