"""One measurement in a process of its own: takes a task as JSON on the command line, prints the result as JSON."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.market import auction, engine, mapped, memory
from benchmarks.market.peers import CONTENDERS, OPS_MAX
from benchmarks.market.plain import make_stream


def measure_plain(contender: str, ops: int, seed: int) -> dict[str, Any]:
    """Play the stream (or the prefix that a slow contender gets) and compare with the referee."""
    ops = min(ops, OPS_MAX.get(contender, ops))
    stream, referee = make_stream(ops, seed)
    span, fills, left = CONTENDERS[contender](stream)
    if fills is not None:
        first = next((n for n, pair in enumerate(zip(fills, referee.fills, strict=False)) if pair[0] != pair[1]), None)
        agrees = fills == referee.fills
        compared = f"{len(referee.fills):,} trades one by one"
        why = "" if agrees else f"differs at trade {first}: {len(fills)} of {len(referee.fills)} trades"
    else:
        agrees = left == referee.volumes()
        compared = "size left at each price (it reports no trades)"
        why = "" if agrees else "another size is left"
    return {
        "contender": contender,
        "ops": ops,
        "seconds": span.wall,
        "cpu_seconds": span.cpu,
        "ops_per_second": ops / span.wall,
        "trades": len(referee.fills),
        "resting": len(referee.live),
        "agrees": agrees,
        "compared": compared,
        "why": why,
    }


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "plain": measure_plain,
    "mapped": mapped.measure_mapped,
    "mix": engine.measure_mix,
    "needle": engine.measure_needle,
    "auction": auction.measure_auction,
    "optimum": auction.measure_optimum,
    "memory": memory.measure_memory,
    "traced": memory.measure_traced,
}


def main() -> None:
    """Run the task given."""
    task = json.loads(sys.argv[1])
    start = time.monotonic()
    result = KINDS[task.pop("kind")](**task)
    print(json.dumps({**result, "process_seconds": round(time.monotonic() - start, 2)}))


if __name__ == "__main__":
    main()
