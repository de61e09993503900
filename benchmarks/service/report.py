"""Results as small tables, each followed by goal and measured; and what is wrong with them, if anything."""

from typing import Final

from benchmarks.market.measure import Result, goal_line, table
from benchmarks.service.measure import best_of, failure_of, median_of

#: Text to print, and faults: what failed, answered with an error, or lost something.
Shown = tuple[str, list[str]]

ACKS_PER_SECOND_MIN: Final = 15_000
ACK_P99_MS_MAX: Final = 10.0
SINGLES_PER_SECOND_MIN: Final = 1_500
BATCHED_PER_SECOND_MIN: Final = 8_000
REPLAYED_PER_SECOND_MIN: Final = 50_000
TAKEOVER_S_MAX: Final = 1.0
READ_P99_MS_MAX: Final = 20.0
HELP_S_MAX: Final = 0.3
UP_S_MAX: Final = 10.0
_GOAL_IN_FLIGHT: Final = 64


def show_inprocess(result: Result) -> Shown:
    """Show durable commands a second by stream and commands in flight."""
    rows: list[list[str]] = []
    goals: list[str] = []
    faults: list[str] = []
    for case in result["cases"]:
        runs, in_flight = case["runs"], case["in_flight"]
        name = f"{case['stream']}{', ids asked for' if case['is_asked'] else ''}"
        if failed := failure_of(runs):
            faults.append(f"inprocess {name}, {in_flight} in flight: {failed}")
            continue
        best = best_of(runs)
        cpu = best["cpu_us"]
        rows.append([
            name, str(in_flight), f"{best['per_second']:,.0f}", f"{median_of(runs, 'per_second'):,.0f}",
            f"{best['p50_ms']:.1f}", f"{best['p99_ms']:.1f}", f"{best['commands_per_batch']:.0f}",
            f"{best['commit_ms']:.1f}", f"{cpu['event loop']:.0f}", f"{cpu['writer and other threads']:.0f}",
            f"{cpu['postgres']:.0f}", f"{best['making_us']:.0f}", f"{100 * best['refused'] / best['commands']:.0f} %",
        ])  # fmt: skip
        if in_flight == _GOAL_IN_FLIGHT:
            rate, p99 = best["per_second"], best["p99_ms"]
            goals.append(goal_line(
                f"{name}, {in_flight} in flight",
                f"{ACKS_PER_SECOND_MIN:,} commands/s, p99 below {ACK_P99_MS_MAX:.0f} ms",
                f"{rate:,.0f}/s, {p99:.1f} ms", is_met=rate >= ACKS_PER_SECOND_MIN and p99 < ACK_P99_MS_MAX,
            ))  # fmt: skip
    head = ["durable answers, in process", "in flight", "/s best", "low median", "p50 ms", "p99 ms", "a batch",
            "commit ms", "loop us", "threads us", "postgres us", "making us", "refused"]  # fmt: skip
    return "\n".join([table(head, rows), "", *goals]), faults


def show_http(result: Result) -> Shown:
    """Show orders a second over HTTP."""
    rows: list[list[str]] = []
    goals: list[str] = []
    faults: list[str] = []
    least = {"single orders": SINGLES_PER_SECOND_MIN, "orders:batch": BATCHED_PER_SECOND_MIN}
    for name, runs in result["ways"].items():
        if failed := failure_of(runs):
            faults.append(f"http {name}: {failed}")
            continue
        faults += [f"http {name}: errors {run['errors']}, first {run['first_error']}" for run in runs if run["errors"]]
        best = best_of(runs)
        cpu = best["cpu_us"]
        rows.append([
            name, str(best["connections"]), f"{best['per_second']:,.0f}", f"{median_of(runs, 'per_second'):,.0f}",
            f"{best['p50_ms']:.1f}", f"{best['p99_ms']:.1f}", f"{cpu['server']:.0f}", f"{cpu['postgres']:.0f}",
            f"{cpu['load']:.0f}", str(sum(sum(run["errors"].values()) for run in runs)),
        ])  # fmt: skip
        goal, rate = least[name], best["per_second"]
        goals.append(goal_line(f"{name}, {best['connections']} connections", f"{goal:,} orders/s", f"{rate:,.0f}/s",
                               is_met=rate >= goal))  # fmt: skip
    head = ["over HTTP", "connections", "orders/s best", "low median", "p50 ms", "p99 ms", "server us", "postgres us",
            "load us", "errors"]  # fmt: skip
    return "\n".join([table(head, rows), "", "p50 and p99 are of requests, CPU time is by order", "", *goals]), faults


def show_peers(result: Result) -> Shown:
    """Show ours beside the others, and the ratios."""
    rows: list[list[str]] = []
    faults: list[str] = []
    for name, runs in result["contenders"].items():
        if failed := failure_of(runs):
            faults += [] if "No module named" in failed else [f"peers {name}: {failed}"]
            rows.append([name, "not measured:", failed[:60], "", ""])
            continue
        best = best_of(runs)
        rows.append([name, f"{best['per_second']:,.0f}", f"{median_of(runs, 'per_second'):,.0f}",
                     f"{best['p50_ms']:.1f}", f"{best['p99_ms']:.1f}"])  # fmt: skip
    lines = [table(["orders or transfers, durable", "/s best", "low median", "p50 ms", "p99 ms"], rows), ""]
    lines += [f"{ratio:6.1f}x  {name}" for name, ratio in result["ratios"].items()]
    return "\n".join(lines), faults


def ratios(rates: Result) -> dict[str, float]:
    """Return ours by each of theirs: with one connection to one in flight, else at its best to ours at its best."""
    found: dict[str, float] = {}
    ours = {name: rate for name, rate in rates.items() if name.startswith("bursa")}
    for name, rate in rates.items():
        if name in ours or not ours or not rate:
            continue
        is_single = name.endswith(" 1 connection")
        mine = "bursa, 1 in flight" if is_single else max(ours, key=lambda one: ours[one])
        if mine in ours:
            found[f"{mine} / {name}"] = round(ours[mine] / rate, 2)
    return found


def show_replay(result: Result) -> Shown:
    """Show rows and commands a second of reading and replaying the log."""
    rows: list[list[str]] = []
    goals: list[str] = []
    faults: list[str] = []
    for stream, found in result["streams"].items():
        if failed := failure_of([found]):
            faults.append(f"replay {stream}: {failed}")
            continue
        faults += [] if found["agrees"] else [f"replay {stream}: a snapshot and its tail lead elsewhere than the log"]
        faults += [] if found["is_ok"] else [f"replay {stream}: verify finds differences"]
        rows += [
            [f"{stream}: {what}", f"{found[what]['rows']:,}", f"{found[what]['seconds']:.2f}",
             f"{found[what]['per_second']:,.0f}"]
            for what in ("read", "read and decode", "check the chain", "replay with all checks", "verify")
        ]  # fmt: skip
        snapshot = found["snapshot"]
        rows.append([f"{stream}: after a snapshot", f"{snapshot['rows_after']:,}", f"{snapshot['load_seconds']:.2f}",
                     f"{snapshot['per_second']:,.0f}"])  # fmt: skip
        rows.append([f"{stream}: the snapshot itself, {snapshot['bytes'] / 2**20:.1f} MiB", "",
                     f"{snapshot['restore_seconds']:.2f}", ""])  # fmt: skip
        rate = found["replay with all checks"]["per_second"]
        goals.append(goal_line(f"replay, {stream}", f"{REPLAYED_PER_SECOND_MIN:,} commands/s", f"{rate:,.0f}/s",
                               is_met=rate >= REPLAYED_PER_SECOND_MIN))  # fmt: skip
    return "\n".join([table(["log", "rows", "seconds", "/s"], rows), "", *goals]), faults


def show_takeover(result: Result) -> Shown:
    """Show seconds from kill -9 of the leader to the first answer of the standby."""
    rounds = result["rounds"]
    faults = [f"takeover: {result['lost']} answers given are not in the log"] if result["lost"] else []
    leads = f"{median_of(rounds, 'leads_s'):.3f}"
    lines = [
        f"{len(rounds)} rounds, {result['acknowledged']:,} answers given before the kills, {result['lost']} lost",
        f"first answer: min {result['min_s']:.3f} s, median {result['median_s']:.3f} s, max {result['max_s']:.3f} s",
        f"it leads after: median {leads} s",
        "",
        goal_line("takeover, the slowest", f"below {TAKEOVER_S_MAX:.0f} s", f"{result['max_s']:.3f} s",
                  is_met=result["max_s"] < TAKEOVER_S_MAX),
    ]  # fmt: skip
    return "\n".join(lines), faults


def show_reads(result: Result) -> Shown:
    """Show latencies of public reads, with and without orders beside them."""
    runs = [*result["loaded"], result["quiet"]]
    if failed := failure_of(runs):
        return "failed", [f"reads: {failed}"]
    rows: list[list[str]] = []
    goals: list[str] = []
    faults = [f"reads: orders {run['errors']}, first {run['first_error']}" for run in runs if run["errors"]]
    for run in runs:
        for name, read in run["reads"].items():
            faults += [f"reads {name}: {read['errors']}, first {read['first_error']}"] if read["errors"] else []
            rows.append([name, f"{run['per_second']:,.0f}", f"{read['requests']:,}", f"{read['p50_ms']:.1f}",
                         f"{read['p99_ms']:.1f}"])  # fmt: skip
    for name in result["quiet"]["reads"]:
        p99 = min(run["reads"][name]["p99_ms"] for run in result["loaded"])
        goals.append(goal_line(f"GET {name} under load", f"p99 below {READ_P99_MS_MAX:.0f} ms", f"{p99:.1f} ms",
                               is_met=p99 < READ_P99_MS_MAX))  # fmt: skip
    return "\n".join([table(["read", "orders/s beside", "reads", "p50 ms", "p99 ms"], rows), "", *goals]), faults


def show_startup(result: Result) -> Shown:
    """Show seconds until help is printed, and until an exchange is ready."""
    names = {"help": "bursa --help", "nothing": "bursa up, from nothing", "again": "bursa up, again"}
    rows = []
    for key, name in names.items():
        ordered = sorted(result[key])
        middle = ordered[len(ordered) // 2]
        rows.append([name, str(len(ordered)), f"{ordered[0]:.2f}", f"{middle:.2f}", f"{ordered[-1]:.2f}"])
    middle = sorted(result["help"])[len(result["help"]) // 2]
    slowest = max(result["nothing"])
    lines = [
        table(["seconds until", "runs", "min", "median", "max"], rows),
        "",
        goal_line("bursa --help", f"below {HELP_S_MAX} s", f"{middle:.2f} s", is_met=middle < HELP_S_MAX),
        goal_line("bursa up from nothing", f"below {UP_S_MAX:.0f} s", f"{slowest:.1f} s", is_met=slowest < UP_S_MAX),
    ]
    return "\n".join(lines), []
