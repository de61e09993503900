"""Log lines: well-formed whatever is logged, and without secrets, wherever these come from."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from bursa.ops import logs
from bursa.ops.trace import current_trace_id, new_trace_id

SECRET = "s3cr3t-" + "x" * 36


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def write(
    message: str,
    *args: object,
    is_json: bool = True,
    extra: dict[str, object] | None = None,
    exc_info: Exception | None = None,
) -> str:
    stream = io.StringIO()
    logs.configure("info", is_json=is_json, stream=stream)
    logs.log("bursa.test").info(message, *args, extra=extra, exc_info=exc_info)
    return stream.getvalue()


def test_a_json_line_has_the_promised_fields() -> None:
    trace_id = new_trace_id()
    token = current_trace_id.set(trace_id)
    line = json.loads(write("took %d orders", 3, extra={"seq": 17, "took_s": 0.5, "host": "hst_1"}))
    current_trace_id.reset(token)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "bursa.test",
        "message": "took 3 orders",
        "trace_id": trace_id,
        "seq": 17,
        "took_s": 0.5,
        "host": "hst_1",
    }


def test_levels_below_the_chosen_one_are_left_out() -> None:
    stream = io.StringIO()
    logs.configure("warning", is_json=True, stream=stream)
    logs.log("bursa.test").info("quiet")
    logs.log("bursa.test").warning("loud")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["loud"]


@pytest.mark.parametrize("is_json", [True, False])
def test_one_record_is_one_line_whatever_the_message_holds(is_json: bool) -> None:
    """A line break in a message would let a caller forge a record."""
    assert write("a\n2026-01-01 error b\r\x00é", is_json=is_json).count("\n") == 1


LEAKS = [
    f"made bursa_17_{SECRET}",
    f"postgresql://bursa:{SECRET}@db/bursa refused",
    f"host=db user=bursa password={SECRET} dbname=bursa",
    f"host=db password='{SECRET}' dbname=bursa",
    f"Authorization: Bearer {SECRET}",
    f"{{'authorization': 'Bearer {SECRET}'}}",
    f"[(b'authorization', b'Bearer {SECRET}')]",
    f"curl -H 'Authorization: Basic {SECRET}'",
    f'{{"password": "{SECRET}"}}',
    f"GET /v1?secret={SECRET}&x=1",
]


@pytest.mark.parametrize("is_json", [True, False])
@pytest.mark.parametrize("leak", LEAKS)
def test_no_secret_leaves_in_a_message_an_argument_an_extra_or_a_traceback(leak: str, is_json: bool) -> None:
    def raise_it() -> None:
        raise ValueError(leak)

    shown = write(leak, is_json=is_json) + write("%s and %r", leak, leak, is_json=is_json)
    shown += write("x", extra={"detail": leak, "password": SECRET, "headers": {"a": leak}}, is_json=is_json)
    try:
        raise_it()
    except ValueError as error:
        shown += write("failed", exc_info=error, is_json=is_json)
    assert "ValueError" in shown
    assert SECRET not in shown
    assert "x" * 12 not in shown


def test_the_number_of_a_key_stays_readable() -> None:
    assert logs.redact(f"key bursa_17_{SECRET} is expired") == "key bursa_17_… is expired"


def test_a_text_without_secrets_is_left_as_it_is() -> None:
    text = "bid ord_17: h100-sxm at 2.88 via http://127.0.0.1:8000/v1/orders, user@example"
    assert logs.redact(text) == text


def test_a_long_message_is_cut() -> None:
    line = json.loads(write("a" * 100_000))
    assert len(line["message"]) < logs.MESSAGE_CHARS_MAX + 40


def test_configuring_again_replaces_the_stream() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", is_json=False, stream=first)
    logs.configure("info", is_json=False, stream=second)
    logs.log("bursa.test").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
