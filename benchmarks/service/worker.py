"""One measurement in a process of its own: takes a task as JSON on the command line, prints the result as JSON."""

import faulthandler
import importlib
import json
import os
import sys
from typing import Final

from benchmarks.service.measure import DSN, HANG_MARGIN_S, WORKER_SECONDS_MAX

#: Where each kind of task is done; imported only then, so that no contender carries another's modules.
KINDS: Final = {
    "inprocess": ("inprocess", "measure"),
    "classic": ("classic", "measure"),
    "hordak": ("hordak", "measure"),
    "record": ("replay", "record"),
    "replay": ("replay", "measure"),
    "node": ("takeover", "run_node"),
    "seed": ("over_http", "seed"),
    "load": ("load", "measure"),
}


def main() -> None:
    """Do the task given."""
    # One that hangs says where before it is ended.
    faulthandler.dump_traceback_later(WORKER_SECONDS_MAX - HANG_MARGIN_S, exit=True)
    task = json.loads(sys.argv[1])
    module, function = KINDS[task.pop("kind")]
    result = getattr(importlib.import_module(f"benchmarks.service.{module}"), function)(os.environ[DSN], **task)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
