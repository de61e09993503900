"""Shapes of sellers' hosts."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from bursa.market import HostState
from bursa.wire.orders import Gpus, Instrument

Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class HostFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a host is: ``gpus`` identical cards of one model in one server, and what comes with them."""

    gpus: Gpus
    country: Annotated[str, Meta(pattern=r"^[A-Z]{2}$", description="ISO 3166 alpha-2", examples=["DE"])]
    region: Annotated[str, Meta(max_length=64)] = ""
    vcpus: Count = 8
    ram_gib: Count = 32
    disk_gib: Count = 100
    network_mbps: Count = 1_000
    gpu_memory_mib: Count = 0
    has_ecc: bool = False
    interconnect: Annotated[str, Meta(max_length=64)] = ""
    driver: Annotated[str, Meta(max_length=32)] = "container"


class HostRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List a host. It can sell once it has passed its check."""

    instrument: Instrument
    spec: HostFacts


class CheckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The host passed its check; ``spec`` is what the probe found, absent when it is as listed."""

    is_verified: bool = False
    spec: HostFacts | None = None


class HostView(msgspec.Struct, frozen=True):
    """A host as its seller sees it; ``reliability`` is per mille of promised hours delivered."""

    id: str
    instrument: str
    state: HostState
    is_verified: bool
    is_silent: bool
    is_retired: bool
    is_demo: bool
    reliability: int
    gpus_rented: int
    ask: str | None
    spec: HostFacts
    seq: int


class HostPage(msgspec.Struct, frozen=True):
    """A page of hosts."""

    items: list[HostView]
    next: str | None
