"""Calls about rentals, for the renter and for the seller. In the examples, ``client`` is a `Client` of a renter."""

from __future__ import annotations

from typing import Literal

from bursa.market import RentalState
from bursa.sdk.call import Call, change, read, segment
from bursa.wire import AutoExtendRequest, ExtendRequest, RentalPage, RentalView


def list_rentals(
    *,
    role: Literal["BUYER", "SELLER"] | None = None,
    state: RentalState | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[RentalPage]:
    """Return a page of your rentals, newest first; ``state`` is "live", "over" or one state.

    `iterate_rentals` gives them all.

    >>> all(rental.role == "BUYER" for rental in client.list_rentals(role="BUYER").items)
    True
    """
    return read("/v1/rentals", RentalPage, role=role, state=state, limit=limit, cursor=cursor)


def show_rental(rental: str) -> Call[RentalView]:
    """Return one rental: state, cost so far, what is still held, when it ends.

    >>> buy = BidRequest(
    ...     instrument="h100-sxm", gpus=1, hours=2, limit_price="4.00", time_in_force=TimeInForce.IOC
    ... )
    >>> rental = client.place_bid(buy).fills[0].rental
    >>> client.show_rental(rental).hours
    2
    """
    return read(f"/v1/rentals/{segment(rental, 'rental')}", RentalView)


def stop_rental(rental: str, *, idempotency_key: str | None = None) -> Call[RentalView]:
    """End a rental now. Hours begun are charged, the rest of the hold is released.

    >>> rental = client.list_rentals(state="live").items[0]
    >>> print(client.stop_rental(rental.id).reason)
    stopped_by_renter
    """
    return _act(rental, "stop", idempotency_key)


def extend_rental(rental: str, request: ExtendRequest, *, idempotency_key: str | None = None) -> Call[RentalView]:
    """Buy more hours on the same GPUs at no more than a limit.

    >>> rental = client.list_rentals(state="live").items[0]
    >>> client.extend_rental(rental.id, ExtendRequest(hours=3, limit_price="4.00")).hours - rental.hours
    3
    """
    path = f"/v1/rentals/{segment(rental, 'rental')}/extend"
    return change("POST", path, RentalView, request, idempotency_key)


def set_auto_extend(rental: str, request: AutoExtendRequest, *, idempotency_key: str | None = None) -> Call[RentalView]:
    """Extend by itself at each end, up to a price and a cap; 0 hours turns it off.

    >>> rental = client.list_rentals(state="live").items[0]
    >>> auto = AutoExtendRequest(hours=1, limit_price="4.00", cap="50.00")
    >>> client.set_auto_extend(rental.id, auto).id == rental.id
    True
    """
    path = f"/v1/rentals/{segment(rental, 'rental')}/auto-extend"
    return change("PUT", path, RentalView, request, idempotency_key)


def reclaim_rental(rental: str, *, idempotency_key: str | None = None) -> Call[RentalView]:
    """Take a host back from its renter, as its seller; this costs a penalty and reliability.

    >>> seller.reclaim_rental("rnt_999999")
    Traceback (most recent call last):
    bursa.errors.ApiError: ...
    """
    return _act(rental, "reclaim", idempotency_key)


def _act(rental: str, action: str, idempotency_key: str | None) -> Call[RentalView]:
    return change("POST", f"/v1/rentals/{segment(rental, 'rental')}/{action}", RentalView, None, idempotency_key)
