"""Write the tables of docs that come from code: scripts/doc_tables.py [--check].

A table stands between two comments: `<!-- transitions: NAME -->` and `<!-- end of transitions -->`, or
`<!-- rules -->`, `<!-- problems -->`, `<!-- operations -->` and `<!-- end of … -->`.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from bursa.api import openapi, problems
from bursa.market import RULE_LIMITS, MarketRules, transitions

DOCS = Path(__file__).resolve().parent.parent / "docs"
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


def problems_table() -> str:
    """Return the problems of the HTTP API as a Markdown table, by status and code."""
    rows = ["| status | code | title |", "|---|---|---|"]
    found = sorted((status, code, title) for code, (status, title) in problems().items())
    rows += [f"| {status} | `{code}` | {title} |" for status, code, title in found]
    return "\n".join(rows) + "\n"


def operations_table() -> str:
    """Return the operations of the HTTP API as Markdown tables, one a tag."""
    document = openapi()
    parts = []
    for tag in document["tags"]:
        rows = [f"### {tag['name'].capitalize()}", "", tag["description"], "", "| request | what it does | scope |"]
        rows.append("|---|---|---|")
        for path, methods in document["paths"].items():
            for method, row in methods.items():
                if row["tags"] == [tag["name"]]:
                    needs = re.search(r"Scope: (.+)\.", row.get("description", ""))
                    scope = needs[1] if needs else "any" if row["security"] else "–"
                    rows.append(f"| `{method.upper()} {path}` | {row['summary']} | {scope} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


TABLES: dict[str, Callable[[], str]] = {
    "rules": rules_table,
    "problems": problems_table,
    "operations": operations_table,
}


def renewed(text: str) -> str:
    """Return a page with its tables written anew."""
    for name, make in TABLES.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if start in text:
            head, _, rest = text.partition(start)
            text = f"{head}{start}\n{make()}\n{end}{rest.partition(end)[2]}"
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
