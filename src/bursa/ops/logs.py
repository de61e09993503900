"""Log lines, as JSON or as text, from the standard library's logging; no secret leaves through them.

A line says when (UTC), how severe, who (logger), what, within which trace, and what was passed as `extra`. Redaction
works on the finished text, so that it also sees tracebacks and what other packages log.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from bursa.ops.trace import current_trace_id

#: Longest message and longest traceback of a line, in characters: a log line is not a dump.
MESSAGE_CHARS_MAX: Final = 8_192

# What may stand in a log line by accident, and what is left of it.
_SECRETS: Final = (
    (re.compile(r"\bbursa_(\d+)_[A-Za-z0-9_-]+"), r"bursa_\1_…"),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://[^\s:/@\"']*):[^\s@\"']*@"), r"\1:…@"),
    # Before the next one: the header's value may be in quotes, in a tuple of bytes, or bare.
    (re.compile(r"(?i)\b(authorization\W{1,8}(?:bearer|basic|digest)?\s*)[^\s\"',)\]}]+"), r"\1…"),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]+=*"), r"\1…"),
    (
        re.compile(
            r"(?i)\b(pgpassword|password|passwd|secret)(\\?[\"']?\s*[=:]\s*)(?:\\?[\"'][^\"']*[\"']|[^\s\"',;&]+)"
        ),
        r"\1\2…",
    ),
)
#: Packages that say at a lower level what our own lines say, or say it for each request or each attempt to connect.
_QUIET: Final = {
    "asyncio": "WARNING",
    "httpcore": "WARNING",
    "httpx": "WARNING",
    "psycopg.pool": "ERROR",
    "uvicorn": "WARNING",
}
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure(level: str, *, is_json: bool, stream: TextIO | None = None) -> None:
    """Send every log line of this process to ``stream`` (absent: stderr), from ``level`` (debug … error) on.

    Calling it again replaces what the call before had set up.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_JsonFormatter() if is_json else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(least)


def log(name: str) -> logging.Logger:
    """Return the logger of a room or module, like "bursa.sequencer"."""
    return logging.getLogger(name)


def redact(text: str) -> str:
    """Return the text with API keys, passwords in URLs and connection strings, and authorization headers cut out."""
    for pattern, left in _SECRETS:
        text = pattern.sub(left, text)
    return text


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, trace_id, error, then the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _show_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(redact(record.getMessage())),
        }
        if trace_id := current_trace_id.get():
            line["trace_id"] = trace_id
        if record.exc_info:
            line["error"] = _cut(redact(self.formatException(record.exc_info)))
        for name, value in extra_fields(record).items():
            line.setdefault(name, _show_value(name, value))
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    """One line for people: time, level, logger, message, extra fields; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_show_value(name, value)}" for name, value in extra_fields(record).items())
        # One record is one line: a line break in a message could pass for another record.
        message = _cut(redact(record.getMessage())).replace("\r", "\\r").replace("\n", "\\n")
        line = f"{_show_time(record.created)} {record.levelname.lower():7} {record.name}: {message}{fields}"
        if record.exc_info:
            line = f"{line}\n{_cut(redact(self.formatException(record.exc_info)))}"
        return line


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return what the caller passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _show_value(name: str, value: object) -> object:
    """Return numbers and truth values as they are, anything else as redacted text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    # The name is redacted with its value, so that `extra={"password": …}` is seen too.
    return _cut(redact(f"{name}={value}").removeprefix(f"{name}="))


def _show_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS_MAX else f"{text[:MESSAGE_CHARS_MAX]}… ({len(text)} characters)"
