"""Shapes of keys and of who one is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from bursa.wire.values import Price


class Scope(StrEnum):
    """What a key may do: look; order and rent; move funds; sell; administer (its party; an operator: the exchange)."""

    READ = "read"
    TRADE = "trade"
    FUND = "fund"
    SELL = "sell"
    ADMIN = "admin"


class KeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Make a key. Its scopes, cap and expiry lie within those of the key that makes it.

    ``daily_cap`` limits what its orders may cost in a UTC day: US$, excluding tax, at their limit prices.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=5)]
    daily_cap: Price | None = None
    expires_at: datetime | None = None


class Key(msgspec.Struct, frozen=True):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    scopes: list[Scope]
    daily_cap: Price | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKey(msgspec.Struct, frozen=True):
    """A key just made; ``secret`` is shown this once."""

    key: Key
    secret: str


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys."""

    items: list[Key]
    next: str | None


class Identity(msgspec.Struct, frozen=True):
    """Who the key acts for, and what it may do."""

    party: str
    name: str
    key: Key
    is_operator: bool
    is_suspended: bool
    is_in_debt: bool
