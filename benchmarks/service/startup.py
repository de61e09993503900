"""What a person waits for: `bursa --help`, and `bursa up` from nothing and again, until it is ready."""

import subprocess
import sys
import time
from typing import Final

from benchmarks.market.measure import ROOT, Result
from benchmarks.service.over_http import Up
from tests.postgres import make_folder

HELPS: Final = 10
STARTS: Final = 3


def bench(seed: int, *, is_quick: bool) -> Result:  # noqa: ARG001 - nothing here is random
    """Measure several runs of each; the first run of all has read the files from disk already."""
    helps, starts = (2, 1) if is_quick else (HELPS, STARTS)
    _help()
    result: Result = {"help": [_help() for _ in range(helps)], "nothing": [], "again": []}
    for _ in range(starts):
        with make_folder() as folder:
            for kind in ("nothing", "again"):
                up = Up(folder / "data")
                try:
                    result[kind].append(up.wait_ready())
                finally:
                    up.stop()
    return result


def _help() -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "bursa.cli", "--help"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own program
    return time.perf_counter() - start
