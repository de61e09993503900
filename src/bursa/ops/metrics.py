"""Prometheus collectors of one process, in a registry of their own; the one place where their names are decided.

A metric's name, labels and unit are public: dashboards and alarms are built on them. Labels come from short closed
lists (never from an id, a key or a path as sent), so that their number is bounded.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY: Final = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

# Upper bounds of buckets: seconds for times, commands for batches.
_COMMIT_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)
_HTTP_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_BATCH: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)

QUEUE_DEPTH: Final = Gauge("bursa_queue_depth", "Commands that wait for the sequencer.", registry=REGISTRY)
BATCH_COMMANDS: Final = Histogram(
    "bursa_batch_commands", "Commands committed in one transaction.", buckets=_BATCH, registry=REGISTRY
)
COMMIT_SECONDS: Final = Histogram(
    "bursa_commit_seconds",
    "Time from the first COPY of a batch to its confirmed COMMIT.",
    buckets=_COMMIT_S,
    registry=REGISTRY,
)
COMMANDS: Final = Counter(
    "bursa_commands",
    "Commands by kind and result (accepted, rejected, repeated).",
    ("kind", "result"),
    registry=REGISTRY,
)
ORDERS: Final = Counter(
    "bursa_orders", "Orders by outcome: a state, or the code of a refusal.", ("outcome",), registry=REGISTRY
)
BOOK_SPREAD: Final = Gauge(
    "bursa_book_spread_usd",
    "Best ask minus best bid in US$ per GPU-hour; NaN while a side is empty.",
    ("instrument",),
    registry=REGISTRY,
)
SEQ: Final = Gauge("bursa_seq", "Newest committed command this process has seen.", registry=REGISTRY)
EPOCH: Final = Gauge("bursa_epoch", "Epoch of the leader this process knows.", registry=REGISTRY)
IS_LEADER: Final = Gauge("bursa_is_leader", "1 in the process that decides commands, else 0.", registry=REGISTRY)
REPLICATION_LAG: Final = Gauge(
    "bursa_replication_lag_records", "Committed records that this process has not applied yet.", registry=REGISTRY
)
HTTP_REQUESTS: Final = Counter(
    "bursa_http_requests",
    "Requests by method, route template and status.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
HTTP_SECONDS: Final = Histogram(
    "bursa_http_seconds",
    "Time to answer a request; streams are not counted.",
    ("route",),
    buckets=_HTTP_S,
    registry=REGISTRY,
)
SSE_READERS: Final = Gauge("bursa_sse_readers", "Readers of event streams.", registry=REGISTRY)
SSE_DROPPED: Final = Counter("bursa_sse_dropped", "Readers dropped because they read too slowly.", registry=REGISTRY)
CLOCK_STEPS: Final = Counter(
    "bursa_clock_steps", "Steps of the system clock beyond the alarm limit.", registry=REGISTRY
)
POSTGRES_RESTARTS: Final = Counter(
    "bursa_postgres_restarts", "Times that the supervisor started PostgreSQL again.", registry=REGISTRY
)

#: Media type of what `render` returns.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def render() -> bytes:
    """Return every metric of this process in the Prometheus text format (media type CONTENT_TYPE)."""
    return generate_latest(REGISTRY)
