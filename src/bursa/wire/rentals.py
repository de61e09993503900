"""Shapes of rentals."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from bursa.market import EndReason, RentalState
from bursa.money import Currency
from bursa.wire.orders import Hours
from bursa.wire.values import Amount, Price


class RentalView(msgspec.Struct, frozen=True):
    """A rental as its renter or its seller sees it (``role`` BUYER or SELLER).

    ``cost`` is what was charged so far, tax included, in the wallet's currency; ``held`` what is still reserved.
    """

    id: str
    role: str
    order: str
    host: str
    instrument: str
    gpus: int
    hours: int
    price: Price
    currency: Currency
    state: RentalState
    is_in_doubt: bool
    is_demo: bool
    reason: EndReason | None
    charged_hours: int
    cost: Amount | None
    held: Amount | None
    opened_at: datetime
    start_by: datetime | None
    started_at: datetime | None
    ends_at: datetime | None
    ended_at: datetime | None
    seq: int


class RentalPage(msgspec.Struct, frozen=True):
    """A page of rentals, newest first."""

    items: list[RentalView]
    next: str | None


class ExtendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Buy ``hours`` more hours on the same GPUs at no more than ``limit_price``."""

    hours: Hours
    limit_price: Price


class AutoExtendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Extend by ``hours`` at each end, up to a price and a cap on spending (tax included); 0 hours turns it off."""

    hours: Annotated[int, Meta(ge=0, le=8_760)]
    limit_price: Price = "0"
    cap: Price = "0"
