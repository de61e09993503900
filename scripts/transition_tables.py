"""Write the state tables of docs/explain from the tables that the engine obeys: scripts/transition_tables.py [--check].

Each table stands between two comments, `<!-- transitions: NAME -->` and `<!-- end of transitions -->`.
"""

import re
import sys
from pathlib import Path

from bursa.market import transitions

PAGES = Path(__file__).resolve().parent.parent / "docs" / "explain"
BLOCK = re.compile(r"(<!-- transitions: (\w+) -->\n).*?(<!-- end of transitions -->)", re.DOTALL)


def table(name: str) -> str:
    """Return one state machine as a Markdown table, and its final states."""
    rows = ["| from | what happens | to |", "|---|---|---|"]
    moves = getattr(transitions, name)
    rows += [f"| {before.value} | {what} | {after.value} |" for (before, what), after in moves.items()]
    finals = {after for after in moves.values() if not any(before is after for before, _ in moves)}
    ends = ", ".join(sorted(state.value for state in finals)) or "none"
    return "\n".join(rows) + f"\n\nFinal states: {ends}.\n"


def renewed(text: str) -> str:
    """Return a page with its tables written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{table(block[2])}\n{block[3]}", text)


def main() -> int:
    """Write the pages, or with --check say which are out of date."""
    stale = [page for page in sorted(PAGES.glob("*.md")) if renewed(page.read_text("utf-8")) != page.read_text("utf-8")]
    for page in stale:
        print(f"{page.name} is out of date" if "--check" in sys.argv else f"writing {page.name}")
        if "--check" not in sys.argv:
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
