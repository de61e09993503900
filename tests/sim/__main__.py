"""Run the simulator: `python -m tests.sim --seed 1 --commands 1000000`.

Exit codes: 0 sound, 1 a violation (or something that never happened), 2 wrong usage. With --show, Ctrl-C ends with 0:
it is how one leaves.
"""

import argparse
import json
import os
import sys
import time

from tests.sim.report import COVERAGE_COMMANDS_MIN, as_json, fault_lines, never_happened, summary_lines
from tests.sim.show import show
from tests.sim.simulation import Options, Simulation

#: Frames drawn by --show when nobody watches.
FRAMES_UNWATCHED = 3
#: With --show the market is watched, not measured: this many commands are more than anybody watches.
SHOW_COMMANDS = 10**9


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, report; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim",
        description="Simulate a whole market and audit it.",
        epilog="Exit codes: 0 sound, 1 a violation or something that never happened, 2 wrong usage.",
    )
    parser.add_argument("--seed", type=int, default=1, help="decides everything that happens (default 1)")
    parser.add_argument(
        "--commands",
        type=_positive,
        default=0,
        help="how many, ticks not counted (default 100000; with --show no limit)",
    )
    parser.add_argument("--parties", type=_positive, default=300, help="how many buyers and sellers (default 300)")
    parser.add_argument(
        "--audit-every",
        type=_not_negative,
        default=20_000,
        metavar="K",
        help="audit every K commands (default 20000; 0: only at the end)",
    )
    parser.add_argument("--no-replay", action="store_true", help="do not replay the run in a second process")
    parser.add_argument("--json", action="store_true", help="report as JSON")
    parser.add_argument("--show", action="store_true", help="draw the market while it runs; Ctrl-C ends")
    parser.add_argument(
        "--frames",
        type=_not_negative,
        default=None,
        help="with --show: stop after this many pictures (default 0 on a terminal, else 3; 0: never)",
    )
    chosen = parser.parse_args(arguments)
    if chosen.show:
        return _show(chosen)
    options = Options(
        chosen.seed, chosen.commands or 100_000, chosen.parties, chosen.audit_every, is_followed=not chosen.no_replay
    )
    return _run(options, is_json=chosen.json)


def _run(options: Options, *, is_json: bool) -> int:
    start = time.monotonic()
    run = Simulation(options)
    run.run()
    seconds = time.monotonic() - start
    is_judged = options.commands >= COVERAGE_COMMANDS_MIN and not run.faults
    missing = never_happened(run) if is_judged else []
    if is_json:
        print(json.dumps(as_json(run, seconds, missing), indent=1))
        return 1 if run.faults or missing else 0
    for line in (*summary_lines(run, seconds), *fault_lines(run)):
        print(line)
    if missing:
        print("never happened: " + ", ".join(missing))
    print(f"digest {run.digest or 'none'}")
    print(f"{len(run.faults)} violations")
    return 1 if run.faults or missing else 0


def _show(chosen: argparse.Namespace) -> int:
    frames = chosen.frames if chosen.frames is not None else 0 if sys.stdout.isatty() else FRAMES_UNWATCHED
    options = Options(
        chosen.seed, chosen.commands or SHOW_COMMANDS, chosen.parties, chosen.audit_every, is_followed=False
    )
    run = Simulation(options)
    try:
        show(run, frames)
    except BrokenPipeError:  # the reader has seen enough (`| head`); Python would complain again at exit
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open until the end
    for line in fault_lines(run):
        print(line)
    print(f"{run.sent:,} commands, {run.mirror.counts['trades']:,} trades, {len(run.faults)} violations")
    return 1 if run.faults else 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        message = f"{value} is not a positive number"
        raise argparse.ArgumentTypeError(message)
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        message = f"{value} is less than 0"
        raise argparse.ArgumentTypeError(message)
    return value


if __name__ == "__main__":
    sys.exit(main())
