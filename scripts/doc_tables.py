"""Write the tables of docs that come from code, of states and of parameters: scripts/doc_tables.py [--check].

A table stands between two comments: `<!-- transitions: NAME -->` and `<!-- end of transitions -->`, or `<!-- rules -->`
and `<!-- end of rules -->`.
"""

import re
import sys
from pathlib import Path

from bursa.market import RULE_LIMITS, MarketRules, transitions

DOCS = Path(__file__).resolve().parent.parent / "docs"
RULES = re.compile(r"(<!-- rules -->\n).*?(<!-- end of rules -->)", re.DOTALL)
BLOCK = re.compile(r"(<!-- transitions: (\w+) -->\n).*?(<!-- end of transitions -->)", re.DOTALL)


def table(name: str) -> str:
    """Return one state machine as a Markdown table, and its final states."""
    rows = ["| from | what happens | to |", "|---|---|---|"]
    moves = getattr(transitions, name)
    rows += [f"| {before.value} | {what} | {after.value} |" for (before, what), after in moves.items()]
    finals = {after for after in moves.values() if not any(before is after for before, _ in moves)}
    ends = ", ".join(sorted(state.value for state in finals)) or "none"
    return "\n".join(rows) + f"\n\nFinal states: {ends}.\n"


def rules_table() -> str:
    """Return the parameters of the market as a Markdown table."""
    rows = ["| rule | default | from | to |", "|---|---|---|---|"]
    defaults = MarketRules()
    rows += [
        f"| `{name}` | {getattr(defaults, name):,} | {low:,} | {high:,} |" for name, (low, high) in RULE_LIMITS.items()
    ]
    return "\n".join(rows) + "\n"


def renewed(text: str) -> str:
    """Return a page with its tables written anew."""
    text = RULES.sub(lambda block: f"{block[1]}\n{rules_table()}\n{block[2]}", text)
    return BLOCK.sub(lambda block: f"{block[1]}\n{table(block[2])}\n{block[3]}", text)


def main() -> int:
    """Write the pages, or with --check say which are out of date."""
    stale = [
        page for page in sorted(DOCS.glob("*/*.md")) if renewed(page.read_text("utf-8")) != page.read_text("utf-8")
    ]
    for page in stale:
        print(f"{page.name} is out of date" if "--check" in sys.argv else f"writing {page.name}")
        if "--check" not in sys.argv:
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
