"""What a run did: counts by command and code, what never happened, and the lines that other programs look for."""

from collections import defaultdict
from typing import Final, get_args

from bursa.market import Command, Event, Rejection
from tests.sim.simulation import Simulation

#: From this many commands on, everything below must have happened at least once.
COVERAGE_COMMANDS_MIN: Final = 100_000
#: Codes that a run need not meet, and why.
RARE: Final = {Rejection.LIMIT_REACHED: "needs 10,000 instruments or an account at 2^63 micro-units"}
#: Ways in which a rental may end, as the mirror counts them.
ENDS: Final = (
    "completed", "stopped_by_renter", "funds", "host_lost", "host_reclaimed", "start_failed", "operator", "policy",
)  # fmt: skip
MOVES: Final = ("CLOSED to PREOPEN", "PREOPEN to NO_CANCEL", "NO_CANCEL to OPEN", "OPEN to HALTED", "HALTED to OPEN")
DONE: Final = (
    "audits", "restores", "duplicates", "ClockError", "TickDueError", "buy-now predicted",
    "refusals that left the digest alone",
)  # fmt: skip
_WIDTH: Final = 78


def never_happened(run: Simulation) -> list[str]:
    """Return what a long run must show and this one did not: a simulator that tests less than before is broken too."""
    happened = {name for name, _ in run.results}
    accepted = {name for name, code in run.results if code == "OK"}
    codes = {code for _, code in run.results}
    missing = [f"command {kind.__name__}" for kind in get_args(Command) if kind.__name__ not in happened]
    missing += [f"accepted {kind.__name__}" for kind in get_args(Command) if kind.__name__ not in accepted]
    missing += [f"event {kind.__name__}" for kind in get_args(Event) if not run.events[kind]]
    missing += [f"code {code}" for code in Rejection if code.value not in codes and code not in RARE]
    missing += [f"end {reason}" for reason in ENDS if not run.mirror.counts[f"rentals {reason}"]]
    missing += [f"move {move}" for move in MOVES if not run.mirror.counts[move]]
    missing += [f"check {name}" for name in DONE if not run.done[name]]
    missing += [] if run.clock.jumps and run.clock.steps_back else ["jump of the clock"]
    return missing


def summary_lines(run: Simulation, seconds: float) -> list[str]:
    """Return the report of a run as lines of text."""
    mirror = run.mirror
    counts = mirror.counts
    lines = [f"seed {run.options.seed}, {run.sent:,} commands and {run.results['Tick', 'OK']:,} ticks", ""]
    lines += _by_command(run)
    lines += ["", "rentals by end:    " + _joined({name: counts[f"rentals {name}"] for name in ENDS})]
    lines += [
        "orders by end:     " + _joined({name: counts[f"orders {name}"] for name in ("FILLED", "CANCELED", "EXPIRED")})
    ]
    lines += ["moves of books:    " + _joined({name: n for name, n in sorted(counts.items()) if " to " in name})]
    lines += ["checks:            " + _joined(dict(sorted(run.done.items())))]
    lines += [
        f"trades {counts['trades']:,}, rentals {mirror.last_rental:,} (most at once {run.rentals_max:,})",
        f"open orders at most {run.open_orders_max:,}, journal entries {mirror.ledger.entries:,}",
        f"auctions {counts['auctions']:,} ({counts['auctions with trades']:,} with trades)",
        f"halts {counts['OPEN to HALTED']:,}; the clock jumped {run.clock.jumps} times, fell {run.clock.steps_back}",
        f"{run.sent / seconds:,.0f} commands/s in {seconds:,.1f} s, simulator and checks included",
    ]
    return lines


def fault_lines(run: Simulation) -> list[str]:
    """Return each violation, and how to see it again."""
    if not run.faults:
        return []
    lines = [f"VIOLATION with seed {run.options.seed}, {fault}" for fault in run.faults]
    parties = "" if run.options.parties == 300 else f" --parties {run.options.parties}"
    again = f"python -m tests.sim --seed {run.options.seed} --commands {run.options.commands}{parties}"
    return [*lines, f"again: {again} --audit-every 1000 (smaller finds the command, and takes longer)"]


def as_json(run: Simulation, seconds: float, missing: list[str]) -> dict[str, object]:
    """Return the report as plain data."""
    results: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, code), count in sorted(run.results.items()):
        results[name][code] = count
    return {
        "seed": run.options.seed,
        "commands": run.sent,
        "parties": run.options.parties,
        "results": results,
        "events": dict(sorted((kind.__name__, count) for kind, count in run.events.items())),
        "market": dict(sorted(run.mirror.counts.items())),
        "checks": dict(sorted(run.done.items())),
        "open_orders_max": run.open_orders_max,
        "rentals_max": run.rentals_max,
        "seconds": round(seconds, 3),
        "never_happened": missing,
        "violations": run.faults,
        "digest": run.digest,
    }


def _by_command(run: Simulation) -> list[str]:
    lines: list[str] = []
    by_name: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, code), count in run.results.items():
        by_name[name][code] = count
    for name in sorted(by_name):
        codes = sorted(by_name[name].items(), key=lambda item: (item[0] != "OK", -item[1], item[0]))
        line = f"{name:<16}"
        for code, count in codes:
            word = f" {code} {count:,}"
            if len(line) + len(word) > _WIDTH:
                lines.append(line)
                line = " " * 16
            line += word
        lines.append(line)
    return lines


def _joined(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"
