"""Every benchmark runs, tiny, and agrees with its referee. Times are never asserted: a test machine is noisy."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.market import auction, engine, mapped, memory
from benchmarks.market.__main__ import BENCHES, main
from benchmarks.market.measure import rounds, table
from benchmarks.market.peers import CONTENDERS, play_levels, play_plain
from benchmarks.market.plain import Fill, NaiveBook, make_stream

PACKAGES = {"limit-order-book": "limit_order_book", "order-matching": "order_matching"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_our_plain_books_agree_with_the_referee_trade_for_trade(seed: int) -> None:
    stream, referee = make_stream(1_500, seed)
    assert len(referee.fills) > 100
    for play in (play_plain, play_levels):
        _, fills, _ = play(stream)
        assert fills == referee.fills


def test_the_referee_by_hand() -> None:
    book = NaiveBook()
    book.place(1, 1, 10, 5)
    book.place(2, 1, 9, 5)
    book.place(3, 1, 9, 5)
    book.cancel(3)
    book.place(4, 0, 10, 7)
    assert book.fills == [Fill(4, 2, 9, 5), Fill(4, 1, 10, 2)]
    assert book.volumes() == {(1, 10): 3}


@pytest.mark.parametrize("name", [name for name in CONTENDERS if not name.startswith("bursa")])
def test_each_peer_that_is_installed_agrees_with_the_referee(name: str) -> None:
    if importlib.util.find_spec(PACKAGES.get(name, name)) is None:
        pytest.skip(f"{name} is not installed (make bench installs it)")
    stream, referee = make_stream(400, 1)
    _, fills, left = CONTENDERS[name](stream)
    assert fills == referee.fills if fills is not None else left == referee.volumes()


def test_the_engine_agrees_with_the_referee_trade_for_trade() -> None:
    result = mapped.measure_mapped(300, 1)
    assert result["agrees"]
    assert result["trades"] > 20


def test_the_steady_mix_runs_and_leaves_a_sound_engine() -> None:
    result = engine.measure_mix(20, 400, 1)
    assert result["violations"] == 0
    assert set(result["us_by_kind"]) >= {"PlaceBid", "AmendAsk", "CancelOrder", "StartRental", "StopRental"}


@pytest.mark.parametrize("needles", ["region", "pair"])
def test_a_needle_is_found(needles: str) -> None:
    assert engine.measure_needle(20, 60, 1, needles)["trades"] > 5


def test_the_auction_keeps_every_limit() -> None:
    result = auction.measure_auction(60, 30, 1)
    assert result["faults"] == []
    assert result["trades"] > 5


def test_the_auction_never_beats_the_optimum() -> None:
    result = auction.measure_optimum(12, 1)
    assert 0 < result["ratio_total"] <= 1


def test_memory_is_measured_and_a_restored_engine_is_equal() -> None:
    assert memory.measure_memory(300, 1)["snapshot_bytes"] > 0
    assert memory.measure_traced(200, 1)["traced_bytes_per_order"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BENCHES if name != "plain"])
def test_the_command_line_runs_each_benchmark(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json"
    assert main([name, "--quick", "--out", str(out)]) == 0, capsys.readouterr().out
    result = json.loads(out.read_text(encoding="utf-8"))[name]
    assert result["environment"]["python"]
    assert "goal" in capsys.readouterr().out


def test_a_failed_worker_is_a_result_not_a_crash() -> None:
    [[result]] = rounds([{"kind": "plain", "contender": "nobody", "ops": 10, "seed": 1}], 1)
    assert "failed" in result


def test_table_aligns() -> None:
    assert table(["a", "n"], [["bb", "1"]]) == "a   n\nbb  1"
