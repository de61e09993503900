"""docs/reference/configuration.md lists every key as it is; `python -m tests.config.test_reference` writes it."""

import re
from pathlib import Path

from bursa.config import ClientSettings, Settings
from bursa.config.keys import KEYS
from bursa.config.sources import show_value

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "configuration.md"
BLOCK = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def render_table(which: str) -> str:
    defaults = {"server": Settings(data_dir=Path()), "terminal": ClientSettings()}[which]
    rows = ["| key | variable | default | value | meaning |", "|---|---|---|---|---|"]
    for key in KEYS.values():
        if key.is_client != (which == "terminal"):
            continue
        shown = "see below" if key.name == "data" else f"`{show_value(getattr(defaults, key.field))}`"
        cells = [f"`{key.name}`", f"`BURSA_{key.name.upper()}`", shown.replace("``", "–"), key.expected, key.meaning]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def renew(text: str) -> str:
    return BLOCK.sub(lambda block: f"{block[1]}\n{render_table(block[2])}\n{block[3]}", text)


def test_the_page_lists_every_key_as_it_is() -> None:
    text = PAGE.read_text()
    assert {block[2] for block in BLOCK.finditer(text)} == {"server", "terminal"}
    assert renew(text) == text, "run: python -m tests.config.test_reference"


if __name__ == "__main__":
    PAGE.write_text(renew(PAGE.read_text()))
