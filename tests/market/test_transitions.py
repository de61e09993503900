"""The state tables: sound in themselves, obeyed by the engine's code, and printed in the docs as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bursa.market import transitions
from bursa.market.transitions import BOOK, HOST, ORDER, RENTAL, move
from bursa.market.types import BookState, HostState, OrderState, Rejection, RentalState

ROOT = Path(__file__).resolve().parent.parent.parent
STARTS = {"ORDER": OrderState.NEW, "RENTAL": RentalState.OPENED, "BOOK": BookState.CLOSED, "HOST": HostState.UNCHECKED}


@pytest.mark.parametrize("name", sorted(STARTS))
def test_every_state_is_reached_from_the_first(name: str) -> None:
    table = getattr(transitions, name)
    reached, grown = {STARTS[name]}, True
    while grown:
        more = {after for (before, _), after in table.items() if before in reached} - reached
        reached |= more
        grown = bool(more)
    assert reached == set(type(STARTS[name]))


def test_what_is_not_in_a_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="is not a transition"):
        move(RENTAL, RentalState.ENDED, "renter stops")
    assert move(BOOK, BookState.HALTED, "halt is over") is BookState.OPEN


def test_each_transition_is_named_in_the_code_that_makes_it() -> None:
    """A row that no handler moves by would be a promise that nothing keeps."""
    market = ROOT / "src" / "bursa" / "market"
    code = "\n".join(page.read_text("utf-8") for page in sorted(market.glob("*.py")) if page.name != "transitions.py")
    named = set(re.findall(r'"([a-z -]+)"', code))
    triggers = {what for table in (ORDER, RENTAL, BOOK, HOST) for _, what in table}
    assert triggers <= named, triggers - named


def test_every_refusal_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "refusals.md").read_text("utf-8")
    assert set(re.findall(r"`([A-Z_]+)`", page)) == {code.value for code in Rejection}


def test_the_docs_print_the_tables() -> None:
    script = ROOT / "scripts" / "doc_tables.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
