"""Scenarios: every file plays through, every refusal occurs, every form is used and documented, and scenarios can fail.

A scenario that could not fail would prove nothing, so half of this file breaks good scenarios line by line.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from bursa.errors import ScenarioError
from bursa.market import Engine
from bursa.market.types import Rejection
from tests.market import scenario_world
from tests.market.scenario import SHOWN_FORMS, Played, run_scenario, run_text

SCENARIOS = Path(__file__).parent / "scenarios"
PATHS = sorted(SCENARIOS.glob("*.txt"))
#: refusals_limits fills a 64-bit account in 295 commands.
PARAMS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem == "refusals_limits" else [])
    for path in PATHS
]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scenario-format.md"

#: Money rules §3, the table as it stands there (o1, o3: B1; r1, r3 as they are).
MONEY_TABLE = """
top-up 100;USD;psp_clearing:stripe;100;0
top-up 100;USD;wallet:anna;0;100
bid 4h@3.00 (+19%);USD;wallet:anna;14.28;0
bid 4h@3.00 (+19%);USD;hold:B1;0;14.28
trade at 2.88;USD;hold:B1;14.28;0
trade at 2.88;USD;held:r1;0;13.7088
trade at 2.88;USD;wallet:anna;0;0.5712
hour 1;USD;held:r1;3.4272;0
hour 1;USD;revenue.passthrough;0;2.592
hour 1;USD;revenue.platform_fee;0;0.288
hour 1;USD;vat_accrued:DE;0;0.5472
hour 1;USD;cost.gpu_hours;2.592;0
hour 1;USD;seller_pending:gamma;0;2.592
stopped in hour 3;USD;held:r1;3.4272;0
release;USD;wallet:anna;0;3.4272
host lost in hour 2 instead: hour 2 free, release;USD;held:r1;10.2816;0
host lost;USD;wallet:anna;0;10.2816
penalty 10 % of undelivered 8.64;USD;seller_pending:gamma;0.864;0
penalty;USD;wallet:anna;0;0.864
Bruno (IT, 22 %), EUR wallet, rate 1/1.106028, bid 4h@3.00;EUR;wallet:bruno;13.236556;0
Bruno's hold;EUR;hold:B1;0;13.236556
trade 2.88;EUR;hold:B1;13.236556;0
trade;EUR;held:r3;0;12.707096
trade;EUR;wallet:bruno;0;0.52946
hour, EUR side;EUR;held:r3;3.176774;0
hour, EUR side (2.88 at mid 1.1172);EUR;fx_position;0;2.577873
hour, EUR side;EUR;revenue.fx_margin;0;0.02604
hour, EUR side;EUR;vat_accrued:IT;0;0.572861
hour, USD side;USD;fx_position;2.88;0
hour, USD side;USD;revenue.passthrough;0;2.592
hour, USD side;USD;revenue.platform_fee;0;0.288
hour, seller;USD;cost.gpu_hours;2.592;0
hour, seller;USD;seller_pending:gamma;0;2.592
invoice of 3 hours;USD;vat_accrued:DE;1.6416;0
invoice;USD;vat_payable:DE:OSS;0;1.64
invoice true-up to the renter's favor;USD;wallet:anna;0;0.0016
payout (rounded down, rest carried);USD;seller_available:gamma;7.77;0
payout sent;USD;payout_in_transit:gamma;0;7.77
chargeback of the 100, wallet holds 95.43;USD;wallet:anna;95.43;0
chargeback shortfall;USD;customer_receivable:anna;4.57;0
chargeback;USD;psp_clearing:stripe;0;100
"""


@cache
def played(path: Path) -> Played:
    return run_scenario(path)


# ---- the scenarios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PARAMS)
def test_scenario_plays_through(path: Path) -> None:
    played(path)


@pytest.mark.parametrize("path", PARAMS)
def test_scenario_plays_through_on_an_engine_restored_after_each_command(path: Path) -> None:
    restored = run_scenario(path, restores=True)
    assert restored.world.engine.digest() == played(path).world.engine.digest()


def test_each_worked_example_of_the_rule_book_is_a_scenario() -> None:
    letters = {path.name[0] for path in PATHS if path.name[1] == "_"}
    assert letters == set("abcdefghijklmn")


@pytest.mark.parametrize("line", MONEY_TABLE.split("\n")[1:-1])
def test_each_entry_of_the_money_rules_is_posted_in_a_scenario(line: str) -> None:
    _case, currency, account, debit, credit = line.split(";")
    side, amount = ("debit", debit) if credit == "0" else ("credit", credit)
    expected = re.compile(rf"\n    post {currency} {re.escape(account)} {side} {re.escape(amount)}(\.00)?\s")
    assert any(expected.search(path.read_text(encoding="utf-8")) for path in SCENARIOS.glob("money_*.txt"))


@pytest.mark.slow
def test_every_rejection_occurs() -> None:
    seen = frozenset[str]().union(*(played(path).refusals for path in PATHS))
    assert seen == set(Rejection)


@pytest.mark.slow
def test_every_form_is_used_and_documented() -> None:
    used = frozenset[str]().union(*(played(path).forms for path in PATHS))
    page = PAGE.read_text(encoding="utf-8")
    for section, forms in SHOWN_FORMS.items():
        for form in forms:
            assert form in used or section == "results", f"no scenario uses: {form}"
            assert form in page, f"{PAGE.name} does not show: {form}"


def test_the_examples_of_the_reference_page_play_through() -> None:
    examples = re.findall(r"```text\n(# .*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert examples
    for example in examples:
        run_text(example, PAGE.name)


# ---- lines that cannot be used ---------------------------------------------------------------------------------------

SETUP = """\
instrument h100-sxm · open h100-sxm
party gamma · party anna
anna is taxed in DE under OSS at 19 % · anna tops up 100.00 USD
gamma lists host h1: 2 x h100-sxm in NL/EU · host h1 passes its check
gamma asks A1: 2.88 on h1
"""
NEXT_LINE = SETUP.count("\n") + 1


@pytest.mark.parametrize(
    ("line", "field", "hint"),
    [
        ("anna topps up 5.00 USD", "line", "the nearest is: PARTY tops up AMOUNT CURRENCY [via PROVIDER]"),
        ("anna bid B1: 1 lot x 1 GPU x 1 h at 1.00", "line", "the nearest is: PARTY bids NEW: LOTS lot(s) x"),
        ("anna bids B1: 1 lot x 1 GPU at 1.00", "line", "the nearest is: PARTY bids NEW: LOTS lot(s) x"),
        ("expect wallets anna USD available 5.00", "line", "the nearest is: expect wallet PARTY CURRENCY available"),
        ("wait five minutes", "line", "the nearest is: wait SPAN"),
        ("at noon", "line", "the nearest is: at CLOCK"),
        ("anna stops r9", "rental", "a rental named before: there is none yet"),
        ("bruno tops up 5.00 USD", "party", "a party named before: gamma, anna"),
        ("party anna", "party", "a new name, this one is taken by party #2"),
        ("anna tops up 5.00 CHF", "currency", "one of EUR, USD, GBP"),
        ("anna tops up 5.0000001 USD", "amount", "at most 6 decimals"),
        ("anna tops up 1e3 USD", "line", "the nearest is: PARTY tops up"),
        ("anna bids B1: 1 lot x 1 GPU x 1 h at 1.00, cheap", "option", "IOC, FOK, GTC"),
        ("anna bids B1: 1 lot x 1 GPU x 1 h at 1.00, paid in CHF", "currency", "one of EUR"),
        ("gamma asks A2: 1.00 on h1, max one hour", "option", "min 2 GPUs"),
        ("gamma lists host h2: 1 x h100-sxm in DE, fast", "option", "vcpus"),
        ("host h1 passes its check, hopefully", "line", "the nearest is: host HOST passes its check"),
        ("anna is taxed in DE under MOSS at 19 %", "scheme", "one of DOM, OSS"),
        ("anna is taxed in DE under OSS at 19.00001 %", "percent", "at most four decimals"),
        ("rules fees 5", "rule", "one of tick_micros"),
        ("anna tops up 5.00 USD -> okay", "result", "ok, repeated or one of UNKNOWN_INSTRUMENT"),
        ("anna tops up 5.00 USD ->", "result", "a result behind ->"),
        ("anna tops up 5.00 USD -> ok OPEN", "state", "one of NEW, PARTIALLY_FILLED"),
        ("anna tops up 5.00 USD -> ok FILLED twice", "line", "the nearest is: ok [STATE]"),
        ("party x · party y -> ok", "result", "one command a line"),
        ("party x · · party y", "line", "a command on each side"),
        ("expect no holds -> ok", "result", "no result behind an expectation"),
        ("wait 1 s -> ok", "result", "no result behind a time"),
        ("expect no holds\n    no trade", "effect", "a command above the indented line"),
        ("anna tops up 5.00 USD\n    posts USD wallet:anna credit 5.00", "line", "the nearest is: post POSTING"),
        ("anna tops up 5.00 USD\n    post USD wallet:anna 5.00", "posting", "CURRENCY ACCOUNT debit|credit AMOUNT"),
        ("anna tops up 5.00 USD\n    post USD walet:anna credit 5.00", "account", "a ledger account, one of bank"),
        ("anna tops up 5.00 USD\n    post USD wallet:anne credit 5.00", "party", "a party named before"),
        ("anna tops up 5.00 USD\n    with USD wallet:anna credit 5.00", "effect", "only below `operator posts`"),
        ("wait 1 s\n    with USD wallet:anna credit 5.00", "effect", "only below `operator posts`"),
        ("anna tops up 5.00 USD\n    no event TradeHeld", "event", "one of PartyRegistered"),
        ("anna tops up 5.00 USD\n    entries TOPUP", "entries", "TOP_UP"),
        ("expect balance USD bank left 0.00", "side", "debit or credit"),
        ("expect balance USD bonk debit 0.00", "account", "a ledger account"),
        ("expect order A1 NEW", "order", "`expect ask` for one that stands"),
        ("instrument a100-80\nanna bids B1: 1 lot x 1 GPU x 1 h at 1.00", "instrument", "there are 2 instruments"),
        ("0 times: party x", "times", "1 to 1000"),
        ("at 1:00\nat 0:59", "time", "time never falls"),
    ],
)
def test_a_line_that_cannot_be_used_says_where_and_what_would_be_right(line: str, field: str, hint: str) -> None:
    text = SETUP + line
    with pytest.raises(ScenarioError) as caught:
        run_text(text, "bad.txt")
    assert caught.value.field == field
    assert hint in caught.value.expected
    assert caught.value.line == text.count("\n") + 1
    assert str(caught.value).startswith(f"bad.txt:{caught.value.line}: {field}: got ")


def test_an_indented_line_needs_a_command_above_it() -> None:
    with pytest.raises(ScenarioError, match=r"bad\.txt:2: effect"):
        run_text("# nothing yet\n    no trade\n", "bad.txt")


def test_a_file_that_nobody_could_read_is_refused() -> None:
    with pytest.raises(ScenarioError, match="at most 2000 lines"):
        run_text("# a line\n" * 2_001, "bad.txt")


# ---- lines that come out otherwise -----------------------------------------------------------------------------------

BID = "anna bids B1: 1 lot x 1 GPU x 4 h at 3.00"
POSTS = """
    post USD wallet:anna debit 14.28
    post USD hold:B1 credit 14.28
    post USD hold:B1 debit 14.28
    post USD held:B1.1 credit 13.7088
    post USD wallet:anna credit 0.5712
"""


def test_the_scenario_that_is_broken_below_is_right() -> None:
    run_text(f"{SETUP}{BID} -> ok FILLED filled 1{POSTS}", "good.txt")


@pytest.mark.parametrize(
    ("lines", "expected", "got"),
    [
        (BID + POSTS.replace("13.7088", "13.7089"), "held:B1.1 credit 13.7089", "held:B1.1 credit 13.7088"),
        (
            BID + POSTS.replace("    post USD wallet:anna credit 0.5712\n", ""),
            "not found: none",
            "wallet:anna credit 0.5712",
        ),
        (BID + POSTS + "    post USD rounding credit 0.01\n", "rounding credit 0.01", "not in the scenario: none"),
        (BID + POSTS + "    post USD hold:B1 credit 14.28\n", "6 postings", "5 postings"),
        (BID + POSTS.replace("hold:B1 debit", "hold:A1 debit"), "hold:A1 debit 14.28", "hold:B1 debit 14.28"),
        (BID + POSTS.replace("post USD hold", "post EUR hold"), "EUR hold:B1", "USD hold:B1"),
        (BID + "\n    post nothing", "0 postings", "5 postings"),
        (BID + "\n    no trade", "none", "trade B1 x A1 on h1"),
        (BID + "\n    trade B1 x A1 on h1: 1 GPU x 4 h at 2.89", "at 2.89", "at 2.88"),
        (BID + "\n    trade B1 x A1 on h1: 2 GPUs x 4 h at 2.88", "2 GPU x", "1 GPU x"),
        (BID + 2 * "\n    trade B1 x A1 on h1: 1 GPU x 4 h at 2.88", "trade B1", "trade B1"),
        (BID + "\n    entries HOLD_PLACED", "HOLD_PLACED", "HOLD_PLACED, TRADE"),
        (BID + "\n    event OrderClosed: state CANCELED", "state CANCELED", "state FILLED"),
        (BID + "\n    event RentalStarted", "event RentalStarted", "RentalOpened"),
        (BID + "\n    no event RentalOpened", "none", "rental B1.1"),
        (BID + "\n    auction at 2.88: 4 GPU-hours, imbalance 1", "auction at 2.88", "[]"),
        (BID + " -> INSUFFICIENT_FUNDS", "INSUFFICIENT_FUNDS", "ok FILLED"),
        (BID + " -> ok NEW", "ok NEW", "ok FILLED filled 1"),
        (BID + " -> ok FILLED filled 2", "filled 2", "filled 1"),
        (BID + " -> repeated", "repeated", "ok FILLED"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00", "ok", "INSUFFICIENT_FUNDS field currency shortfall 28.52 USD"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00 -> ok", "ok", "INSUFFICIENT_FUNDS"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00 -> NO_RATE", "NO_RATE", "INSUFFICIENT_FUNDS"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00 -> INSUFFICIENT_FUNDS field lots", "field lots", "field currency"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00 -> INSUFFICIENT_FUNDS shortfall 28.51 USD", "28.51", "28.52"),
        ("anna bids B1: 9 lots x 1 GPU x 4 h at 3.00 -> INSUFFICIENT_FUNDS shortfall 28.52 EUR", "EUR", "USD"),
        ("anna tops up 5.00 USD -> ok FILLED", "ok FILLED", "ok"),
        ("expect wallet anna USD available 100.01", "100.01", "100.00"),
        ("expect wallet anna USD available 100.00 held 0.01", "0.01", "0.00"),
        ("expect balance USD wallet:anna debit 100.00", "100.00", "-100.00"),
        ("expect ask A1 1 GPU at 2.88", "1", "2"),
        ("expect ask A1 2 GPUs at 2.87", "2.87", "2.88"),
        ("expect ask #9 2 GPUs at 2.88", "a standing ask", "None"),
        ("expect asks: 2.88 x 3", "2.88 x 3", "2.88 x 2"),
        ("expect asks: none", "none", "2.88 x 2"),
        ("expect bids: 2.88 x 2", "2.88 x 2", "none"),
        ("expect best 1 GPU = none", "none", "A1 on h1 at 2.88"),
        ("expect best 1 GPU = A1 on h1 at 2.87", "2.87", "2.88"),
        ("expect host h1 SUSPENDED", "SUSPENDED", "HEALTHY"),
        ("expect host h1 HEALTHY reliability 901", "901", "900"),
        ("expect host #9 HEALTHY", "HEALTHY", "RETIRED"),
        ("expect book h100-sxm HALTED", "HALTED", "OPEN"),
        ("expect book b200 OPEN", "OPEN", "not listed"),
        ("expect order #9 FILLED", "#9", "neither open nor closed"),
        ("expect rental #9 STARTED", "#9", "never opened"),
        ("expect indicative 2.88, 0 GPU-hours, imbalance 0", "2.88", "0.00"),
        ("expect next due at 1:00", "1:00:00", "8760:00:00"),
        (BID + "\nexpect no holds", "()", "rental_id=1"),
        (BID + "\nexpect rental B1.1 STARTED", "STARTED", "OPENED"),
        (BID + "\nrental B1.1 starts\nexpect rental B1.1 STARTED 1 hour", "1", "0"),
        (BID + "\nrental B1.1 starts\nexpect rental B1.1 STARTED until 4:01", "4:01:00", "4:00:00"),
        (BID + "\nanna stops B1.1\nexpect rental B1.1 ENDED funds", "funds", "stopped_by_renter"),
        (BID + "\nexpect order B1 FILLED filled 2", "2", "1"),
        (BID + "\nexpect order B1 CANCELED", "CANCELED", "FILLED"),
        ("wait 1 h\n    entries TRADE", "TRADE", ""),
    ],
)
def test_a_line_that_comes_out_otherwise_fails_with_both(lines: str, expected: str, got: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run_text(SETUP + lines, "wrong.txt")
    place, line, wanted, came = str(caught.value).split("\n")
    found = re.fullmatch(r"wrong\.txt:(\d+): .+", place)
    assert found is not None, place
    assert NEXT_LINE <= int(found[1]) <= NEXT_LINE + lines.count("\n")
    assert line.startswith("  line:     ")
    assert wanted.startswith("  expected: ")
    assert expected in wanted
    assert came.startswith("  got:      ")
    assert got in came


#: Scenarios short enough to break each of their lines in turn.
BREAKABLE = ["a_", "c_", "e_", "f_", "g_", "h_", "m_", "money_anna", "money_bruno", "money_chargeback."]


def _breakages(path: Path) -> list[str]:
    """Return the scenario once for each checked line, with the last number of that line one larger."""
    lines = path.read_text(encoding="utf-8").split("\n")
    texts = []
    for number, line in enumerate(lines):
        code = line.split(" #")[0]
        is_checked = code.startswith(("    post USD", "    post EUR", "    trade", "    auction", "expect"))
        if is_checked and (found := re.search(r"^(.*?)(\d)(\D*)$", code)) is not None:
            broken = f"{found[1]}{(int(found[2]) + 1) % 10}{found[3]}"
            texts.append("\n".join([*lines[:number], broken, *lines[number + 1 :]]))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in PATHS if path.name.startswith(tuple(BREAKABLE))], ids=lambda p: p.stem
)
def test_no_checked_line_can_be_wrong_unseen(path: Path) -> None:
    texts = _breakages(path)
    assert texts
    for text in texts:
        with pytest.raises((AssertionError, ScenarioError)):
            run_text(text, path.name)


# ---- what the runner demands of every scenario -----------------------------------------------------------------------


def test_an_audit_that_finds_something_fails_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_world, "audit", lambda _engine: ("a wallet is below zero",))
    with pytest.raises(AssertionError, match="a wallet is below zero"):
        run_text(SETUP, "audit.txt")


def test_a_refusal_that_changes_something_fails_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(f"digest {number}" for number in range(1_000))
    monkeypatch.setattr(Engine, "digest", lambda _engine: next(digests))
    with pytest.raises(AssertionError, match=r"x\.txt:2: a refused or repeated command changed the engine"):
        run_text("party anna\n#9 tops up 5.00 USD -> UNKNOWN_PARTY", "x.txt")


def test_balances_that_the_journal_does_not_explain_fail_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "balances", lambda _engine: {"USD": {"bank": 1}})
    with pytest.raises(AssertionError, match="balances differ from the sum of the journal entries"):
        run_text("party anna", "x.txt")


def test_a_replay_that_differs_fails_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Engine):
        __slots__ = ()

        def digest(self) -> str:
            return "another digest"

    monkeypatch.setattr(scenario_world, "Engine", Forgetful)
    with pytest.raises(AssertionError, match="a replay gave another digest"):
        run_text("party anna", "x.txt")


def test_a_snapshot_that_differs_fails_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "restore", lambda _data: Engine())
    with pytest.raises(AssertionError, match="a restored snapshot differs"):
        run_text("party anna", "x.txt")


def test_time_that_never_gets_done_fails_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_world, "TICKS_MAX", 3)
    with pytest.raises(AssertionError, match="time-driven work is not done after 3 ticks"):
        run_text(f"{SETUP}{BID}\nrental B1.1 starts\nwait 4 h", "x.txt")
