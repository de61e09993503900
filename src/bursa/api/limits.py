"""How much one key, one address and one stream may ask for: named limits, and token buckets in bounded memory.

A bucket is one number (the generic cell rate algorithm): the time at which it will be full again. So a full bucket
needs no memory at all, and what is forgotten under pressure is forgotten in the asker's favor.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

#: Buckets remembered at once, for keys and for addresses each; beyond it the one unused for longest is forgotten.
BUCKETS_MAX: Final = 65_536
#: What an attempt with a bad key costs its address, in tokens: guessing is to be slow.
BAD_KEY_COST: Final = 10
#: Longest wait that a Retry-After names, in seconds.
RETRY_SECONDS_MAX: Final = 3_600
_IPV6_GROUPS: Final = 4


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the HTTP API. Rates are in tokens per second, bursts in tokens; a request costs one token.

    Items of a batch cost less: ``batch_items_per_token`` of them make one. Times are in seconds.
    """

    key_rate: int = 500
    key_burst: int = 1_000
    address_rate: int = 200
    address_burst: int = 400
    batch_items_per_token: int = 10
    #: Largest request body, in bytes.
    body_bytes_max: int = 1_048_576
    body_seconds_max: float = 10.0
    #: Readers of streams, in all and from one address.
    streams_max: int = 1_000
    streams_per_address_max: int = 64
    #: Messages that wait for one reader before it is dropped.
    stream_waiting_max: int = 256
    #: Messages kept per instrument for readers that come back.
    stream_ring_max: int = 1_024
    stream_heartbeat_s: float = 15.0
    #: Least time between two deltas of one instrument.
    stream_interval_s: float = 0.1
    #: How long one message may take to leave before its reader is dropped.
    stream_send_s: float = 10.0
    #: How long an instrument without readers is kept up to date, so that they can come back without a snapshot.
    stream_linger_s: float = 30.0
    #: Longest life of one stream; the reader comes back with Last-Event-ID.
    stream_life_s: float = 3_600.0


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What a bucket says: tokens that remain, seconds until it is full, and how long to wait (0: go ahead)."""

    remaining: int
    full_in_s: int
    retry_after_s: int

    @property
    def is_allowed(self) -> bool:
        """Tell whether the tokens were taken."""
        return self.retry_after_s == 0


class Buckets:
    """Token buckets by name (a key's number, an address), all with one rate and one burst.

    ``policy`` is the value of the RateLimit-Policy header: quota, and the window in seconds in which it comes back.
    """

    __slots__ = ("_burst_s", "_full_at", "_name", "_second_cost", "policy")

    def __init__(self, name: str, rate: int, burst: int) -> None:
        assert rate > 0, "a rate is at least one token per second"
        assert burst > 0, "a burst is at least one token"
        self._name = name
        self._second_cost = 1 / rate
        self._burst_s = burst / rate
        self._full_at: dict[int | str, float] = {}
        self.policy = f'"{name}";q={burst};w={math.ceil(burst / rate)}'.encode()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, bucket: int | str, now: float, cost: float = 1) -> Verdict:
        """Take ``cost`` tokens from a bucket at ``now`` (monotonic seconds), or none when there are too few."""
        full_at = self._full_at.pop(bucket, now)
        base = max(full_at, now)
        after = base + cost * self._second_cost
        excess = after - now - self._burst_s
        # A billionth of a second forgives what floating point adds up to.
        if excess > 1e-9:  # noqa: PLR2004 - explained above
            self._remember(bucket, base, now)
            wait = math.ceil(min(excess, RETRY_SECONDS_MAX)) or 1
            return Verdict(self._remaining(base - now), math.ceil(base - now), wait)
        self._remember(bucket, after, now)
        return Verdict(self._remaining(after - now), math.ceil(after - now), 0)

    def charge(self, bucket: int | str, now: float, cost: float) -> None:
        """Take tokens that were spent already; a bucket may owe at most one burst."""
        base = max(self._full_at.pop(bucket, now), now)
        self._remember(bucket, min(base + cost * self._second_cost, now + 2 * self._burst_s), now)

    def has_tokens(self, bucket: int | str, now: float) -> bool:
        """Tell whether a bucket holds a token, without taking it."""
        full_at = self._full_at.get(bucket)
        return full_at is None or full_at - now + self._second_cost <= self._burst_s

    def show(self, verdict: Verdict) -> bytes:
        """Return the value of the RateLimit header."""
        return f'"{self._name}";r={verdict.remaining};t={verdict.full_in_s}'.encode()

    def _remaining(self, used_s: float) -> int:
        return max(0, int((self._burst_s - used_s) / self._second_cost + 1e-6))

    def _remember(self, bucket: int | str, full_at: float, now: float) -> None:
        """Keep a bucket as the one used last; forget the oldest ones that are full, or one too many."""
        buckets = self._full_at
        if full_at > now:
            buckets[bucket] = full_at
        while buckets:
            oldest = next(iter(buckets))
            if len(buckets) <= BUCKETS_MAX and buckets[oldest] > now:
                return
            del buckets[oldest]


def bucket_of(client: object) -> str:
    """Return what an address is counted by: IPv4 as it is, IPv6 by its /64 network (one household), else "local".

    ``client`` is the ASGI scope's: a pair of host and port, or None behind a Unix socket.
    """
    host = client[0] if isinstance(client, tuple | list) and client else None
    if not isinstance(host, str) or not host:
        return "local"
    if ":" not in host:
        return host
    if host.startswith("::ffff:") and "." in host:
        return host.removeprefix("::ffff:")  # IPv4, as a socket for both kinds shows it
    # A /64 is its first four groups; what "::" leaves out there is zero.
    head = [group for group in host.partition("::")[0].split(":") if group]
    return ":".join((head + ["0"] * _IPV6_GROUPS)[:_IPV6_GROUPS]) + "::/64"
