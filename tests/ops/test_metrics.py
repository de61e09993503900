"""Metrics: the names that dashboards are built on, in the format that Prometheus reads."""

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from bursa.ops import metrics

NAMES = {
    "bursa_queue_depth": "gauge",
    "bursa_batch_commands": "histogram",
    "bursa_commit_seconds": "histogram",
    "bursa_commands": "counter",
    "bursa_orders": "counter",
    "bursa_book_spread_usd": "gauge",
    "bursa_seq": "gauge",
    "bursa_epoch": "gauge",
    "bursa_is_leader": "gauge",
    "bursa_replication_lag_records": "gauge",
    "bursa_http_requests": "counter",
    "bursa_http_seconds": "histogram",
    "bursa_sse_readers": "gauge",
    "bursa_sse_dropped": "counter",
    "bursa_clock_steps": "counter",
    "bursa_postgres_restarts": "counter",
}


def test_the_names_and_kinds_are_the_promised_ones() -> None:
    families = list(text_string_to_metric_families(metrics.render().decode()))
    ours = {
        family.name: family.type
        for family in families
        # Each counter and histogram also carries when it was created; that is Prometheus's own business.
        if family.name.startswith("bursa_") and not family.name.endswith("_created")
    }
    assert ours == NAMES
    assert any(family.name == "process_open_fds" for family in families)
    assert all(family.documentation for family in families)


def test_what_is_counted_is_shown() -> None:
    before = metrics.REGISTRY.get_sample_value("bursa_sse_dropped_total") or 0
    metrics.SSE_DROPPED.inc()
    assert f"bursa_sse_dropped_total {before + 1}" in metrics.render().decode()


def test_logs_alone_do_not_load_the_metrics() -> None:
    """The terminal logs too, and has to start within 0.3 s."""
    code = "import sys; import bursa.ops; print('prometheus_client' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout.strip() == "False"
