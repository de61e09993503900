"""Results as small tables, each followed by goal and measured; and what is wrong with them, if anything."""

from typing import Final

from benchmarks.market.measure import Result, best_and_median, goal_line, table
from benchmarks.market.peers import PURE_PYTHON

#: Text to print, and faults: a failed contender, a disagreement with the referee.
Shown = tuple[str, list[str]]

PEER_RATIO_MIN: Final = 5.0
CPP_RATIO_MIN: Final = 0.5
ENGINE_PER_SECOND_MIN: Final = {1_000: 25_000, 100_000: 15_000}
GROWTH_MAX: Final = 2.0
AUCTION_SECONDS_MAX: Final = 1.0
SNAPSHOT_SECONDS_MAX: Final = 20.0
ORDER_BYTES_MAX: Final = 1_024


def show_plain(result: Result) -> Shown:
    """Show operations a second by contender, and the ratios to peers."""
    rows: list[list[str]] = []
    faults: list[str] = []
    goals: list[str] = []
    for size, by_name in result["sizes"].items():
        speeds: dict[str, float] = {}
        for name, runs in by_name.items():
            failed = [run["failed"] for run in runs if "failed" in run]
            if failed:
                faults.append(f"plain {size} {name}: {failed[0]}")
                continue
            best, middle = best_and_median(runs, "seconds")
            cpu, _ = best_and_median(runs, "cpu_seconds")
            ops = runs[0]["ops"]
            speeds[name] = ops / best
            if not runs[0]["agrees"]:
                faults.append(f"plain {size} {name}: {runs[0]['why']}")
            prefix = "" if str(ops) == size else f" (first {ops:,} only)"
            agrees = "yes" if runs[0]["agrees"] else "NO"
            rows.append([
                f"{name}{prefix}", f"{int(size):,}", f"{ops / best:,.0f}", f"{ops / middle:,.0f}", f"{ops / cpu:,.0f}",
                agrees,
            ])  # fmt: skip
        goals += _plain_goals(size, speeds, by_name)
    mapped = result["engine on the same kind of stream"]
    if any("failed" in run for run in mapped):
        faults.append(f"plain: engine: {mapped[0]}")
    else:
        best, middle = best_and_median(mapped, "seconds")
        ops = mapped[0]["ops"]
        faults += [] if mapped[0]["agrees"] else ["plain: the engine's trades differ from the referee's"]
        cpu, _ = best_and_median(mapped, "cpu_seconds")
        name, agrees = f"bursa Engine ({mapped[0]['rentals']:,} rentals)", "yes" if mapped[0]["agrees"] else "NO"
        rows.append([
            name, f"{ops:,}", f"{ops / best:,.0f}", f"{ops / middle:,.0f}", f"{ops / cpu:,.0f}", agrees,
        ])  # fmt: skip
    head = ["contender", "stream", "ops/s best", "median", "by CPU time", "agrees"]
    return "\n".join([table(head, rows), "", *goals]), faults


def _plain_goals(size: str, speeds: dict[str, float], by_name: Result) -> list[str]:
    full = {name: speed for name, speed in speeds.items() if str(by_name[name][0]["ops"]) == size}
    peers = {name: speed for name, speed in full.items() if name in PURE_PYTHON}
    lines = []
    ours = "bursa"
    if ours in full and peers:
        name = max(peers, key=lambda peer: peers[peer])
        ratio = full[ours] / peers[name]
        text = f"{ratio:.1f}x {name}"
        goal = f"{PEER_RATIO_MIN:.0f}x the fastest pure-Python peer"
        lines.append(goal_line(f"{ours}, {int(size):,} ops", goal, text, is_met=ratio >= PEER_RATIO_MIN))
    if ours in full and "limit-order-book" in full:
        ratio = full[ours] / full["limit-order-book"]
        goal = f"{CPP_RATIO_MIN}x limit-order-book (C++)"
        lines.append(goal_line(f"{ours}, {int(size):,} ops", goal, f"{ratio:.2f}x", is_met=ratio >= CPP_RATIO_MIN))
    return lines


def show_engine(result: Result) -> Shown:
    """Show commands a second by number of resting asks, and how that grows."""
    rows: list[list[str]] = []
    faults: list[str] = []
    speeds: dict[int, float] = {}
    for kind in ("mix", "needle"):
        for runs in result[kind]:
            failed = [run["failed"] for run in runs if "failed" in run]
            if failed:
                faults.append(f"engine {kind}: {failed[0]}")
                continue
            best = min(runs, key=lambda run: float(run["us_mean"]))
            _, middle = best_and_median(runs, "us_mean")
            name = "steady mix" if kind == "mix" else f"one ask in 1,000 fits, by {best['needles']}"
            rows.append([
                name, f"{best['asks']:,}", f"{best['commands_per_second']:,.0f}", f"{1e6 / middle:,.0f}",
                f"{max(run['commands_per_cpu_second'] for run in runs):,.0f}",
                f"{best['us_mean']:.1f}", f"{best['us_p99']:.1f}", f"{best['trades']:,}",
                f"{100 * best['refused'] / best['commands']:.0f} %",
            ])  # fmt: skip
            if kind == "mix":
                speeds[best["asks"]] = best["commands_per_second"]
                faults += [f"engine: {best['violations']} violations"] if best["violations"] else []
    head = ["engine", "asks", "commands/s best", "median", "by CPU time", "us mean", "us p99", "trades", "refused"]
    lines = [table(head, rows), ""]
    for asks, goal in ENGINE_PER_SECOND_MIN.items():
        if asks in speeds:
            name, measured = f"engine, {asks:,} asks", f"{speeds[asks]:,.0f}/s"
            lines.append(goal_line(name, f"{goal:,} commands/s", measured, is_met=speeds[asks] >= goal))
    if len(speeds) > 1:
        low, high = min(speeds), max(speeds)
        growth = speeds[low] / speeds[high]
        name = f"time a command, {low:,} to {high:,} asks"
        lines.append(goal_line(name, f"below {GROWTH_MAX:.0f}x", f"{growth:.2f}x", is_met=growth < GROWTH_MAX))
    return "\n".join(lines), faults


def show_auction(result: Result) -> Shown:
    """Show seconds of a big auction and the ratio to the optimum of small ones."""
    runs, optimum = result["auction"], result["optimum"]
    failed = [run["failed"] for run in (*runs, optimum) if "failed" in run]
    if failed:
        return "failed", [f"auction: {failed[0]}"]
    faults = [f"auction: {fault}" for run in runs for fault in run["faults"]]
    best, middle = best_and_median(runs, "seconds")
    first = runs[0]
    size = f"{first['bids']:,} bids, {first['asks']:,} asks"
    ratios = f"{optimum['ratio_total']:.4f} in all, mean {optimum['ratio_mean']:.4f}, worst {optimum['ratio_min']:.3f}"
    lines = [
        f"{size}: {best:.3f} s best, {middle:.3f} s median of {len(runs)}",
        f"{first['trades']:,} trades, {first['gpu_hours']:,} GPU-hours at US${first['price_micros'] / 1e6:.3f}",
        f"then {first['trades_after']:,} trades in continuous trading, within the same time",
        f"{optimum['books']} small books against every price and every assignment: part of the optimal volume",
        f"  {ratios}; optimal in {100 * optimum['optimal_share']:.1f} %",
        "",
        goal_line(size, f"below {AUCTION_SECONDS_MAX:.0f} s", f"{best:.3f} s", is_met=best < AUCTION_SECONDS_MAX),
    ]
    return "\n".join(lines), faults


def show_snapshot(result: Result) -> Shown:
    """Show seconds and bytes for many open orders."""
    runs, traced = result["memory"], result["traced"]
    failed = [run["failed"] for run in (*runs, traced) if "failed" in run]
    if failed:
        return "failed", [f"snapshot: {failed[0]}"]
    save, load = best_and_median(runs, "snapshot_seconds")[0], best_and_median(runs, "restore_seconds")[0]
    first = runs[0]
    memory = min(run["rss_bytes_per_order"] for run in runs)
    name = f"{first['orders']:,} open orders"
    lines = [
        f"{name}: snapshot {save:.2f} s, restore {load:.2f} s, {first['snapshot_bytes'] / 2**20:,.0f} MiB",
        f"bytes an order: {memory:,.0f} resident, {first['rss_bytes_per_order_restored']:,.0f} resident when restored,",
        f"  {traced['traced_bytes_per_order']:,.0f} by tracemalloc (with {traced['orders']:,} orders)",
        f"bytes an order on disk: {first['disk_bytes_per_order']:,.0f}; placing one took {first['place_us']:.1f} us",
        "",
        goal_line(
            name, "snapshot and restore in 20 s", f"{save + load:.1f} s", is_met=save + load < SNAPSHOT_SECONDS_MAX
        ),
        goal_line(name, "at most 1,024 bytes each in memory", f"{memory:,.0f}", is_met=memory <= ORDER_BYTES_MAX),
    ]
    return "\n".join(lines), []
