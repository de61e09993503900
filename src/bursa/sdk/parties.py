"""Calls about your own party: who you are, keys, hosts, and what happens to you.

In the examples, ``client`` is a `Client` of a renter with every scope and ``seller`` one of a seller.
"""

from __future__ import annotations

from bursa.sdk.call import Call, change, follow, read, segment
from bursa.wire import (
    HostPage,
    HostRequest,
    HostView,
    Identity,
    Key,
    KeyPage,
    KeyRequest,
    NewKey,
    OwnEvents,
)


def whoami() -> Call[Identity]:
    """Tell who the key acts for, and what it may do.

    >>> client.whoami().is_operator
    False
    """
    return read("/v1/whoami", Identity)


def list_keys(*, limit: int | None = None, cursor: str | None = None) -> Call[KeyPage]:
    """Return a page of your party's keys, without their secrets; `iterate_keys` gives them all.

    >>> client.whoami().key.id in [key.id for key in client.list_keys().items]
    True
    """
    return read("/v1/keys", KeyPage, limit=limit, cursor=cursor)


def create_key(request: KeyRequest) -> Call[NewKey]:
    """Make a key. Its secret is in this answer and nowhere else, so the request is not repeated once it was sent.

    >>> made = client.create_key(KeyRequest(name="dashboard", scopes=[Scope.READ]))
    >>> made.secret.startswith("bursa_")
    True
    """
    return Call("POST", "/v1/keys", NewKey, body=request, is_repeatable=False)


def revoke_key(key: str) -> Call[Key]:
    """Revoke a key; it is refused from now on.

    >>> made = client.create_key(KeyRequest(name="lost", scopes=[Scope.READ]))
    >>> client.revoke_key(made.key.id).revoked_at is not None
    True
    """
    return Call("DELETE", f"/v1/keys/{segment(key, 'key')}", Key)


def list_hosts(*, limit: int | None = None, cursor: str | None = None) -> Call[HostPage]:
    """Return a page of your hosts; `iterate_hosts` gives them all.

    >>> all(host.is_demo in (True, False) for host in seller.list_hosts().items)
    True
    """
    return read("/v1/hosts", HostPage, limit=limit, cursor=cursor)


def show_host(host: str) -> Call[HostView]:
    """Return one of your hosts.

    >>> first = seller.list_hosts().items[0]
    >>> seller.show_host(first.id).instrument == first.instrument
    True
    """
    return read(f"/v1/hosts/{segment(host, 'host')}", HostView)


def list_host(request: HostRequest, *, idempotency_key: str | None = None) -> Call[HostView]:
    """List a host for sale. It can sell once it has passed its check.

    >>> host = seller.list_host(HostRequest(instrument="h100-sxm", spec=HostFacts(gpus=8, country="DE")))
    >>> print(host.state)
    UNCHECKED
    """
    return change("POST", "/v1/hosts", HostView, request, idempotency_key)


def retire_host(host: str, *, idempotency_key: str | None = None) -> Call[HostView]:
    """Take a host off sale for good; rentals on it go on.

    >>> host = seller.list_host(HostRequest(instrument="h100-sxm", spec=HostFacts(gpus=1, country="DE")))
    >>> seller.retire_host(host.id).is_retired
    True
    """
    return change("DELETE", f"/v1/hosts/{segment(host, 'host')}", HostView, None, idempotency_key)


def stream_events(*, after_seq: int | None = None) -> Call[OwnEvents]:
    """Follow what happens to your orders, rentals, hosts and funds, from now on or from after a seq.

    A broken connection is opened again and nothing is missed; ApiError EVENTS_TOO_OLD when it is too far back.

    >>> before = client.show_wallet().seq
    >>> order = client.place_bid(BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="0.70"))
    >>> for happened in client.stream_events(after_seq=before):
    ...     print(happened.events[0].kind)
    ...     break
    ORDER_PLACED
    """
    return follow("/v1/events", OwnEvents, after_seq)
