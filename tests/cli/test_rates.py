"""ECB files as they are published, and files that are none."""

from __future__ import annotations

import io
import zipfile
from datetime import date, timedelta

import pytest

from bursa.cli import rates
from bursa.errors import InputError
from bursa.money import Currency
from bursa.wire import RateRequest

DAILY = b"Date, USD, JPY, BGN, GBP, \n27 November 2026, 1.0850, 160.10, 1.9558, 0.84005, \n"
HISTORY = b"Date,USD,JPY,GBP,\r\n2026-11-27,1.0850,160.10,0.84005,\r\n2026-11-26,1.0840,N/A,N/A,\r\n\r\n"


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("_", "."), data)
    return out.getvalue()


def read(data: bytes, days: int = 0) -> list[tuple[str, str, str]]:
    return [(str(rate.as_of), rate.currency.value, rate.rate) for rate in rates.read_rates(data, days=days)]


@pytest.mark.parametrize("data", [DAILY, b"\xef\xbb\xbf" + DAILY, zipped(eurofxref_csv=DAILY)])
def test_the_file_of_a_day(data: bytes) -> None:
    assert read(data) == [("2026-11-27", "USD", "1.0850"), ("2026-11-27", "GBP", "0.84005")]


@pytest.mark.parametrize("data", [HISTORY, zipped(eurofxref_csv=HISTORY, readme_txt=b"x")])
def test_the_file_of_all_days(data: bytes) -> None:
    newest = [("2026-11-27", "USD", "1.0850"), ("2026-11-27", "GBP", "0.84005")]
    assert read(data) == [*newest, ("2026-11-26", "USD", "1.0840")]
    assert read(data, days=1) == newest


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "line 1"),
        (b"<html>", "line 1"),
        (b"Date, JPY\n2026-11-27, 1\n", "line 1"),
        (b"Date, USD, GBP\n2026-13-27, 1, 1\n", "line 2, Date"),
        (b"Date, USD, GBP\n2026-11-27, 1e3, 1\n", "line 2, USD"),
        (b"Date, USD, GBP\n2026-11-27, 0, 1\n", "line 2, USD"),
        (b"Date, USD, GBP\n2026-11-27, 1, -1\n", "line 2, GBP"),
        (b"PK\x03\x04nothing", "SOURCE"),
        (zipped(a_csv=DAILY, b_csv=DAILY), "SOURCE"),
        (zipped(a_txt=DAILY), "SOURCE"),
        (zipped(a_csv=b"x" * (rates.FILE_BYTES_MAX + 1)), "SOURCE"),
    ],
)
def test_another_file_is_refused_by_line(data: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        rates.read_rates(data)


def test_many_rates_go_in_parts_that_can_be_repeated() -> None:
    days = [date(2000, 1, 1) + timedelta(days=number) for number in range(6_000)]
    found = [RateRequest(currency=Currency.USD, rate="1.1", as_of=day) for day in days]
    parts = list(rates.split_requests(found, "ECB"))
    assert [len(request.rates) for _, request in parts] == [5_000, 1_000]
    assert len({key for key, _ in parts}) == 2
    assert [key for key, _ in parts] == [key for key, _ in rates.split_requests(found, "ECB")]
