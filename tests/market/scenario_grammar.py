"""Grammar of scenario files: how a line is cut up, and how a template becomes a form that reads it.

Role: text only; knows nothing of the engine. A form is one template such as
``{party:name} tops up {amount:money} {currency:word}[ via {provider:word}]``: literal words, typed places, parts in
square brackets that may be left out, and ``(s)`` for a plural that may be left out. The same template gives the
regular expression, the line of the reference page and the hint of an error, so the three cannot drift apart.
Invariant: no number is ever read as a float; decimals become micro-units through Money, times nanoseconds.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, Generic, TypeVar

from bursa.errors import InputError, ScenarioError
from bursa.market.types import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from bursa.money import Currency, Money

#: The patterns of a typed place.
KINDS: Final = {
    "name": r"[A-Za-z][A-Za-z0-9_.-]*|\#\d+",  # `#7` is a bare id, for things that do not exist
    "word": r"[A-Za-z0-9][A-Za-z0-9_./-]*",
    "int": r"-?\d+",
    "money": r"-?\d+(?:\.\d+)?",
    "clock": r"\d+:\d\d(?::\d\d(?:\.\d{1,9})?)?",
    "span": r"\d+\s+(?:ns|ms|s|min|h|d)",
    "text": r"\S.*?",
}
_SPAN_NS: Final = {"ns": 1, "ms": 10**6, "s": SECOND_NS, "min": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}
_TOKEN: Final = re.compile(r"\{(?P<key>\w+):(?P<kind>\w+)\}|(?P<open>\[)|(?P<close>\])|(?P<plural>\(s\))|(?P<gap>\s+)")
_COMMENT: Final = re.compile(r"(?:^|\s)#(?:\s.*)?$")
_PREFIX: Final = re.compile(r"(?:(?P<times>\d+) times:\s+|\[(?P<tag>[\w-]+)\]\s+)?(?P<body>.*)")
#: Longest scenario file in lines; a longer one is no longer read by anybody.
LINES_MAX: Final = 2_000
#: Most repetitions of one line, as in `288 times: …`.
REPEATS_MAX: Final = 1_000


@dataclass(frozen=True)
class Place:
    """Where a piece of text stands, to say so in an error."""

    file: str
    line: int
    text: str

    def error(self, name: str, value: object, expected: str) -> ScenarioError:
        """Return (not raise) the error that this place cannot be used."""
        return ScenarioError(self.file, self.line, name, value, expected)

    def mismatch(self, what: str, expected: object, got: object) -> AssertionError:
        """Return (not raise) the failure that the engine did something else than the line says."""
        return AssertionError(
            f"{self.file}:{self.line}: {what}\n  line:     {self.text}\n  expected: {expected}\n  got:      {got}"
        )


@dataclass(frozen=True)
class Statement:
    """One unindented line (or one part of it between `·`): a command or a check, and the effects below it."""

    place: Place
    body: str
    result: str | None
    tag: str = ""
    times: int = 1
    effects: list[tuple[Place, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Fields:
    """The typed places of a line that matched a form. A key that was left out reads as its default."""

    place: Place
    texts: dict[str, str | None]

    def has(self, key: str) -> bool:
        """Tell whether the optional part with this key is there."""
        return self.texts[key] is not None

    def text(self, key: str, default: str = "") -> str:
        """Return the text of a place."""
        found = self.texts[key]
        return default if found is None else found

    def number(self, key: str, default: int = 0) -> int:
        """Return a whole number."""
        found = self.texts[key]
        return default if found is None else int(found)

    def micros(self, key: str, default: int = 0) -> int:
        """Return a decimal as micro-units."""
        found = self.texts[key]
        return default if found is None else read_micros(self.place, found, key)

    def currency(self, key: str = "currency", default: Currency = Currency.USD) -> Currency:
        """Return a currency."""
        found = self.texts[key]
        if found is None:
            return default
        if found not in tuple(Currency):
            raise self.place.error(key, found, f"one of {', '.join(Currency)}")
        return Currency(found)


Built = TypeVar("Built")


@dataclass(frozen=True)
class Form(Generic[Built]):
    """One form of line: its template, what reads it, and the kind of thing that its place `new` names."""

    template: str
    build: Callable[..., Built]
    names: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of the template."""
        return re.compile(_pattern_of(self.template))

    @cached_property
    def shown(self) -> str:
        """The template as people read it: `PARTY tops up AMOUNT CURRENCY [via PROVIDER]`."""
        shown = re.sub(r"\{(\w+):(\w+)\}", lambda match: _shown_place(match[1], match[2]), self.template)
        return re.sub(r"\[(\s+)", r" [", shown)

    @cached_property
    def literals(self) -> list[str]:
        """The literal words that a line of this form must have, to find the nearest form by."""
        return _words_of(re.sub(r"\[.*?\]|\{\w+:\w+\}|\(s\)", " ", self.template))


def read_statements(text: str, file: str) -> list[Statement]:
    """Cut a scenario file into statements; raise ScenarioError for a line without a place in it."""
    lines = text.splitlines()
    statements: list[Statement] = []
    if len(lines) > LINES_MAX:
        raise ScenarioError(file, LINES_MAX, "lines", len(lines), f"at most {LINES_MAX} lines; split the scenario")
    for number, raw in enumerate(lines, start=1):
        body = _COMMENT.sub("", raw).rstrip()
        place = Place(file, number, body.strip())
        if not body:
            continue
        if body[0].isspace():
            if not statements or statements[-1].body.startswith("expect "):
                raise place.error("effect", body.strip(), "a command above the indented line")
            statements[-1].effects.append((place, body.strip()))
        else:
            statements.extend(_statements_of(place, body))
    return statements


def match_form(forms: Iterable[Form[Built]], place: Place, body: str) -> tuple[Form[Built], Fields]:
    """Find the one form that reads this text; raise ScenarioError with the nearest form if there is none."""
    choices = list(forms)
    hits = [(form, match) for form in choices if (match := form.pattern.fullmatch(body)) is not None]
    if not hits:
        nearest = max(choices, key=lambda form: _likeness(form, body))
        raise place.error("line", body, f"a known form; the nearest is: {nearest.shown}")
    assert len(hits) == 1, (body, [form.template for form, _match in hits])
    form, match = hits[0]
    return form, Fields(place, match.groupdict())


def read_micros(place: Place, text: str, key: str = "amount") -> int:
    """Read a decimal string as micro-units; raise ScenarioError if it is none."""
    try:
        return Money.from_decimal_string(text, Currency.USD).micros
    except InputError as error:
        raise place.error(key, text, error.expected) from None


def show_micros(micros: int) -> str:
    """Write micro-units as the shortest decimal string with at least two decimals."""
    return Money(micros, Currency.USD).to_decimal_string()


def read_clock_ns(text: str) -> int:
    """Read `h:mm`, `h:mm:ss` or `h:mm:ss.fraction` since the start of the scenario; hours may pass 24."""
    hours, minutes, seconds = [*text.split(":"), "0"][:3]
    whole, _point, fraction = seconds.partition(".")
    return int(hours) * HOUR_NS + int(minutes) * MINUTE_NS + int(whole) * SECOND_NS + int(fraction.ljust(9, "0"))


def show_clock(elapsed_ns: int) -> str:
    """Write nanoseconds since the start as `h:mm:ss`, with a fraction only where there is one."""
    seconds, fraction = divmod(elapsed_ns, SECOND_NS)
    tail = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"


def read_span_ns(text: str) -> int:
    """Read `50 min`, `3 d` and the like."""
    count, unit = text.split()
    return int(count) * _SPAN_NS[unit]


def _statements_of(place: Place, body: str) -> list[Statement]:
    """Cut one unindented line at its arrow and at `·`; with several commands in it, all of them must succeed."""
    text, arrow, result = body.partition("->")
    parts = [part.strip() for part in text.split("·")]
    if arrow and not result.strip():
        raise place.error("result", body, "a result behind ->, such as `-> ok` or a refusal's code")
    if len(parts) > 1 and arrow:
        raise place.error("result", body, "one command a line where a result is given")
    if not all(parts):
        raise place.error("line", body, "a command on each side of `·`")
    statements = []
    for part in parts:
        prefix = _PREFIX.fullmatch(part)
        assert prefix is not None, part
        times = int(prefix["times"] or 1)
        if not 0 < times <= REPEATS_MAX:
            raise place.error("times", times, f"1 to {REPEATS_MAX}")
        answer = result.strip() if arrow else None
        statements.append(Statement(place, prefix["body"], answer, prefix["tag"] or "", times))
    return statements


def _pattern_of(template: str) -> str:
    """Turn a template into the text of a regular expression."""
    parts: list[str] = []
    position = 0
    for token in _TOKEN.finditer(template):
        parts.append(re.escape(template[position : token.start()]))
        position = token.end()
        if token["key"]:
            parts.append(f"(?P<{token['key']}>{KINDS[token['kind']]})")
        else:
            gap = {"open": "(?:", "close": ")?", "plural": "s?", "gap": r"\s+"}
            parts.append(gap[str(token.lastgroup)])
    return "".join(parts) + re.escape(template[position:])


def _shown_place(key: str, kind: str) -> str:
    """Write a typed place in capitals: NEW for what the line names, otherwise its key."""
    return f"{key.upper()}…" if kind == "text" else key.upper()


def _likeness(form: Form[Built], body: str) -> int:
    """Return how alike a form and a text are in their words, per mille."""
    left, right = form.literals, _words_of(body)
    common = sum(block.size for block in SequenceMatcher(None, left, right).get_matching_blocks())
    return 2_000 * common // max(1, len(left) + len(right))


def _words_of(text: str) -> list[str]:
    """Return the words of a text in lower case and without a plural's s."""
    return [word.lower().rstrip("s") for word in re.findall(r"[A-Za-z-]+", text)]
