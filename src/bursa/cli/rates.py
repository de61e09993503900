"""The ECB's euro reference rates as it publishes them: a CSV file of one day or of all days, also zipped.

One day: ``Date, USD, JPY, …`` and ``27 November 2026, 1.0850, …``. History: ``Date,USD,…`` and ``2026-11-27,1.085,…,``,
with ``N/A`` where a currency has no rate. Only the currencies that bursa keeps wallets in are taken.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from bursa.errors import InputError, NetworkError
from bursa.money import Currency
from bursa.wire import RateRequest, RatesRequest, parse_micros

#: Largest file that is read, zipped or not, in bytes; the whole history has about 1 MB.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
#: Most rates in one request; the API takes 10,000.
RATES_PER_REQUEST: Final = 5_000
TIMEOUT_S: Final = 30.0
_FORMATS: Final = ("%Y-%m-%d", "%d %B %Y")
_WANTED: Final = tuple(currency for currency in Currency if currency is not Currency.EUR)


def fetch(source: str) -> bytes:
    """Return a file, or what a URL gives; InputError or NetworkError when it cannot be had or is too large."""
    if urlsplit(source).scheme not in {"http", "https"}:
        try:
            with Path(source).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as fault:
            raise InputError("SOURCE", source, f"a file that can be read, or a URL ({fault.strerror})") from None
        return _require_size(data, source)
    data = b""
    try:
        with httpx.stream("GET", source, timeout=TIMEOUT_S, follow_redirects=True) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                data = _require_size(data + chunk, source)
    except httpx.HTTPError as fault:
        raise NetworkError(source, f"{type(fault).__name__}: {fault}", "the ECB's CSV file") from fault
    return data


def read_rates(data: bytes, *, days: int = 0) -> list[RateRequest]:
    """Return the rates in an ECB file, newest day first; ``days`` keeps those of that many days up to the newest.

    Raises InputError naming the line when it is not such a file; a rate is never guessed.
    """
    rows = list(csv.reader(io.StringIO(_unzip(data).decode("utf-8-sig", "replace")), skipinitialspace=True))
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    names = [cell.strip() for cell in rows[0]] if rows else []
    if not names or names[0] != "Date" or not set(_WANTED) <= set(names):
        wanted = ", ".join(_WANTED)
        raise InputError(
            "line 1", ",".join(names), f"the header of an ECB file: Date and currencies, among them {wanted}"
        )
    rates = [rate for number, row in enumerate(rows[1:], 2) for rate in _read_row(names, row, number)]
    rates.sort(key=lambda rate: (rate.as_of, rate.currency), reverse=True)
    if days and rates:
        oldest = rates[0].as_of - timedelta(days=days - 1)
        rates = [rate for rate in rates if rate.as_of >= oldest]
    return rates


def split_requests(rates: list[RateRequest], source: str) -> Iterator[tuple[str, RatesRequest]]:
    """Yield requests with their idempotency keys; the same rates give the same keys, so an import can be repeated."""
    for start in range(0, len(rates), RATES_PER_REQUEST):
        part = rates[start : start + RATES_PER_REQUEST]
        told = "\n".join([source, *(f"{rate.as_of} {rate.currency} {rate.rate}" for rate in part)])
        yield f"rates-{hashlib.sha256(told.encode()).hexdigest()[:32]}", RatesRequest(source=source, rates=part)


def _read_row(names: list[str], row: list[str], number: int) -> Iterator[RateRequest]:
    day = _read_date(row[0].strip(), number)
    for currency in _WANTED:
        column = names.index(currency)
        text = row[column].strip() if column < len(row) else ""
        if text in {"N/A", ""}:
            continue
        if parse_micros(text, f"line {number}, {currency}") <= 0:
            raise InputError(f"line {number}, {currency}", text, "a rate above 0")
        yield RateRequest(currency=currency, rate=text, as_of=day)


def _read_date(text: str, number: int) -> date:
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day of the ECB has no time zone
        except ValueError:
            continue
    raise InputError(f"line {number}, Date", text, "a day like 2026-11-27 or 27 November 2026")


def _unzip(data: bytes) -> bytes:
    if not data.startswith(b"PK"):
        return data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".csv")]
            if len(names) != 1:
                raise InputError("SOURCE", ", ".join(archive.namelist()), "an archive with one CSV file")
            with archive.open(names[0]) as file:
                return _require_size(file.read(FILE_BYTES_MAX + 1), names[0])
    except zipfile.BadZipFile as fault:
        raise InputError("SOURCE", str(fault), "a whole zip archive, or a CSV file") from None


def _require_size(data: bytes, name: str) -> bytes:
    if len(data) > FILE_BYTES_MAX:
        raise InputError("SOURCE", name, f"at most {FILE_BYTES_MAX} bytes")
    return data
