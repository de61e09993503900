"""The house rules that a program can check (CONTRIBUTING.md tells them in prose).

Each checker is a pure function from a `Source` (a path and its text) to faults, each naming file:line and the rule. The
first half of the tests runs the checkers over the repository; the second half shows on bad samples that each can fail.
"""

import ast
import io
import os
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
FILE_BYTES_MAX = 1024 * 1024
DECISION_LINES_MAX = 60
HANDLER_ASSERTIONS_MIN = 2

# Rooms whose numbers are integers. A room may be a module or a package.
INTEGER_ROOMS = ("market", "money", "billing")
# Folders that git would ignore, for a tree without git (an unpacked sdist).
IGNORED_FOLDERS = {".git", ".venv", ".cache", "build", "dist", "__pycache__", ".hypothesis", ".pytest_cache"}
# Names that say nothing about what is inside.
NAMELESS_MODULES = {"utils", "util", "helpers", "helper", "common", "misc"}
# The glossary's "never" words, as far as a program can tell that one is meant; each with the word to use.
BANNED_WORDS = {
    "deal": "trade",
    "deposit": "top_up",
    "escrow": "hold",
    "execution": "trade or fill",
    "experiment": "run",
    "lease": "rental",
    "pod": "rental",
    "product": "instrument",
    "recommendation": "plan or estimate",
    "symbol": "instrument",
}
# A banned word with a meaning of its own in one room.
WORD_HOMES = {"symbol": "money"}  # a currency's symbol
# The patterns below are written so that they do not match themselves.
TODO_PATTERN = re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b")
BARE_SUPPRESSION_PATTERN = re.compile(r"#\s*(?:[n]oqa(?!:\s*[A-Z])|type:\s*[i]gnore(?!\[))")
MACHINE_PATTERN = re.compile(
    r"(?<![\w.])[/](?:work|root)/|[/]tmp/bash_jobs|[/]opt/(?:wheels|pypi)"
    r"|\b[p]ypi\.org|[p]ythonhosted\.org|\b[n]pmjs\.(?:org|com)|\b[d]eb\.debian\.org|[p]roxy\.golang\.org"
)
BRITISH_PATTERN = re.compile(
    r"[c]ancell(?:ed(?!Error\b|\(\))|ing)|[l]abell(?:ed|ing)|[m]odell(?:ed|ing)|[s]ignall(?:ed|ing)|[t]otall(?:ed|ing)|[t]ravell(?:ed|ing)"
    r"|[b]ehaviour|[c]olour|[f]avour|[h]onour|[n]eighbour"
    r"|[l]icence|[d]efence|[o]ffence|[a]rtefact|[c]atalogue|[c]entre\b|[g]rey\b|\b[w]hilst\b|[f]ulfil\b"
    r"|(?:[a]uthor|[c]apital|[c]ategor|[f]inal|[i]nitial|[m]aterial|[m]axim|[m]inim|[n]ormal|[o]ptim|[o]rgan|[r]eal|[r]ecogn"
    r"|[s]erial|[s]ummar|[s]ynchron|[u]til|[v]isual)is(?:e[drs]?\b|ing\b|ation)|[a]nalys(?:ed|ing)\b",
    re.IGNORECASE,
)


class Source:
    """One tracked file: its path from the root, its text, and for Python its tree."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def room(self) -> str | None:
        """Name the room that the file belongs to; None outside src/bursa and for the package's own head."""
        parts = PurePosixPath(self.path).parts
        if parts[:2] != ("src", "bursa") or not self.is_python or parts[2] == "__init__.py":
            return None
        return parts[2].removesuffix(".py")

    def fault(self, line: int, rule: str) -> str:
        return f"{self.path}:{line}: {rule}"


Checker = Callable[[Source], Iterable[str]]


@cache
def tracked_paths() -> tuple[str, ...]:
    """List the files that git tracks or would track, or without git all that it would not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.decode()
        paths = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in IGNORED_FOLDERS]
            paths += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in names if not name.endswith(".pyc")]
    return tuple(sorted(set(paths)))


@cache
def sources() -> tuple[Source, ...]:
    """Read every tracked text file."""
    found = []
    for path in tracked_paths():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            found.append(Source(path, data.decode()))
    return tuple(found)


# ── The rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def long_functions(source: Source) -> Iterator[str]:
    for node in source.functions if source.is_python else ():
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield source.fault(
                node.lineno, f"{node.name} has {length} lines; a function has at most {FUNCTION_LINES_MAX}"
            )


def long_modules(source: Source) -> Iterator[str]:
    if source.is_python and source.path.startswith("src/") and len(source.lines) > MODULE_LINES_MAX:
        yield source.fault(len(source.lines), f"{len(source.lines)} lines; a module has at most {MODULE_LINES_MAX}")


def floats_in_integer_rooms(source: Source) -> Iterator[str]:
    """Find floats where numbers are integers. Naming `float` in isinstance, to refuse one, is allowed."""
    if source.room not in INTEGER_ROOMS:
        return
    refusing = set()
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"isinstance", "issubclass"}
        ):
            refusing |= {id(part) for argument in node.args[1:] for part in ast.walk(argument)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield source.fault(node.lineno, f"the literal {node.value} is a float; this room has integers only")
        elif isinstance(node, ast.Name) and node.id == "float" and id(node) not in refusing:
            yield source.fault(node.lineno, "float is used; this room has integers only")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            yield source.fault(node.lineno, "true division makes a float; use // or a rounding function of bursa.money")


def nameless_modules(source: Source) -> Iterator[str]:
    parts = PurePosixPath(source.path.removesuffix(".py")).parts if source.is_python else ()
    for part in parts:
        if part in NAMELESS_MODULES:
            yield source.fault(1, f"'{part}' names no responsibility; put the code where it is used")


def todo_notes(source: Source) -> Iterator[str]:
    """Find to-do notes: in Python among the comments (XXX is also a currency code, in data), elsewhere in any line."""
    for number, text in comments(source) if source.is_python else enumerate(source.lines, 1):
        if TODO_PATTERN.search(text):
            yield source.fault(number, "a to-do note; do it, or open a ticket and say here what holds today")


def bare_suppressions(source: Source) -> Iterator[str]:
    for number, text in comments(source) if source.is_python else ():
        if BARE_SUPPRESSION_PATTERN.search(text):
            yield source.fault(number, "a check is suppressed without its code; write noqa: CODE or ignore[code]")


def comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def machine_names(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.lines, 1):
        if match := MACHINE_PATTERN.search(line):
            yield source.fault(
                number, f"'{match[0]}' is a path or host of one machine's set-up; it says nothing elsewhere"
            )


def british_spellings(source: Source) -> Iterator[str]:
    if (not source.path.startswith(("src/", "docs/")) and "/" in source.path) or source.path == "LICENSE":
        return
    for number, line in enumerate(source.lines, 1):
        if match := BRITISH_PATTERN.search(line):
            yield source.fault(number, f"'{match[0]}' is British spelling; code and docs are American")


def banned_identifiers(source: Source) -> Iterator[str]:
    """Find the glossary's "never" words among the names that src defines; what others define keeps its name."""
    if not (source.is_python and source.path.startswith("src/")):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        for word in words_of(name):
            singular = word if word in BANNED_WORDS else word.removesuffix("s")
            if (right := BANNED_WORDS.get(singular)) and WORD_HOMES.get(singular, "") != source.room:
                yield source.fault(node.lineno, f"'{name}' uses '{word}'; the glossary's word is {right}")


def words_of(identifier: str) -> list[str]:
    """Split snake_case and CamelCase into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def headless_modules(source: Source) -> Iterator[str]:
    if source.is_python and source.path.startswith("src/") and not ast.get_docstring(source.tree):
        yield source.fault(1, "a module's head is a docstring with its role and invariants")


def handlers_with_few_assertions(source: Source) -> Iterator[str]:
    """Count assert statements in the market's command handlers (`on_…`); those of functions they call do not count."""
    for node in source.functions if source.room == "market" else ():
        if not node.name.startswith("on_"):
            continue
        count = sum(isinstance(part, ast.Assert) for part in ast.walk(node))
        if count < HANDLER_ASSERTIONS_MIN:
            yield source.fault(
                node.lineno, f"{node.name} has {count} assertions; a handler has {HANDLER_ASSERTIONS_MIN} or more"
            )


def pages_without_one_title(source: Source) -> Iterator[str]:
    if not source.path.endswith(".md") or source.path.startswith("changelog.d/+"):
        return
    titles, fence = [], ""
    for number, line in enumerate(source.lines, 1):
        if match := re.match(r"\s*(`{3,}|~{3,})", line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1]
        elif not fence and line.startswith("# "):
            titles.append(number)
    if len(titles) != 1:
        yield source.fault(titles[1] if titles else 1, f"{len(titles)} titles (# …); a page has exactly one")


def unknown_fragments(source: Source) -> Iterator[str]:
    path = PurePosixPath(source.path)
    if path.parent.as_posix() != "changelog.d" or path.name == "README.md":
        return
    types = fragment_types()
    if not re.fullmatch(rf"\+[a-z0-9-]+\.(?:{'|'.join(types)})\.md", path.name):
        yield source.fault(1, f"a fragment is named +short-slug.TYPE.md, TYPE one of {', '.join(types)}")
    if not source.text.strip():
        yield source.fault(1, "a fragment says what is different in one to three sentences")


@cache
def fragment_types() -> tuple[str, ...]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return tuple(entry["directory"] for entry in settings["tool"]["towncrier"]["type"])


def long_decisions(source: Source) -> Iterator[str]:
    if source.path.startswith("docs/decisions/0") and len(source.lines) > DECISION_LINES_MAX:
        yield source.fault(len(source.lines), f"{len(source.lines)} lines; a decision has at most {DECISION_LINES_MAX}")


def gaps_in_decisions(paths: Iterable[str]) -> Iterator[str]:
    names = sorted(PurePosixPath(path).name for path in paths if path.startswith("docs/decisions/"))
    records = [name for name in names if name != "index.md"]
    for number, name in enumerate(records, 1):
        if not re.fullmatch(rf"{number:04}-[a-z0-9-]+\.md", name):
            yield f"docs/decisions/{name}:1: decisions have no gap; here comes {number:04}-short-title.md"
            return


def large_file(path: str, size: int) -> Iterator[str]:
    if size > FILE_BYTES_MAX:
        yield f"{path}:1: {size} bytes; a file has at most {FILE_BYTES_MAX}"


CHECKERS: tuple[Checker, ...] = (
    long_functions,
    long_modules,
    floats_in_integer_rooms,
    nameless_modules,
    todo_notes,
    bare_suppressions,
    machine_names,
    british_spellings,
    banned_identifiers,
    headless_modules,
    handlers_with_few_assertions,
    pages_without_one_title,
    unknown_fragments,
    long_decisions,
)


# ── The repository keeps them ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker.__name__)
def test_the_repository_has_no(checker: Checker) -> None:
    faults = [fault for source in sources() for fault in checker(source)]
    assert not faults, "\n" + "\n".join(faults)


def test_decisions_are_numbered_without_a_gap() -> None:
    faults = list(gaps_in_decisions(tracked_paths()))
    assert not faults, "\n" + "\n".join(faults)


def test_no_file_is_large() -> None:
    faults = [fault for path in tracked_paths() for fault in large_file(path, (ROOT / path).stat().st_size)]
    assert not faults, "\n" + "\n".join(faults)


def test_the_checkers_see_the_repository() -> None:
    """A wrong root or an empty listing would make every rule above pass."""
    paths = {source.path for source in sources()}
    assert {"pyproject.toml", "src/bursa/__init__.py", "tests/test_tidy.py", "docs/index.md"} <= paths


# ── Each rule can fail ───────────────────────────────────────────────────────────────────────────────────────────────

HANDLER = "def on_cancel(order: int) -> None:\n    assert order\n"
LONG_BODY = "    pass\n" * FUNCTION_LINES_MAX

# The dots · are taken out before use: without them, these lines would be faults of this file.
BAD_SAMPLES: list[tuple[Checker, str, str, int]] = [
    (long_functions, "src/bursa/market/book.py", f"def match() -> None:\n{LONG_BODY}", 1),
    (long_modules, "src/bursa/market/book.py", "\n" * (MODULE_LINES_MAX + 1), MODULE_LINES_MAX + 1),
    (floats_in_integer_rooms, "src/bursa/market/book.py", "PRICE = 1.5", 1),
    (floats_in_integer_rooms, "src/bursa/market/book.py", "def price(ticks: int) -> float: ...", 1),
    (floats_in_integer_rooms, "src/bursa/money.py", "\nprice = float('1')", 2),
    (floats_in_integer_rooms, "src/bursa/money/amount.py", "half = total / 2", 1),
    (floats_in_integer_rooms, "src/bursa/billing/tax.py", "total /= 2", 1),
    (nameless_modules, "src/bursa/market/utils.py", "", 1),
    (nameless_modules, "src/bursa/helpers/dates.py", "", 1),
    (todo_notes, "src/bursa/errors.py", "x = 1\n# TO·DO: later", 2),
    (todo_notes, "docs/index.md", "FIX·ME", 1),
    (bare_suppressions, "src/bursa/errors.py", "import os  # no·qa", 1),
    (bare_suppressions, "tests/test_x.py", "x = y  # type:· ignore", 1),
    (machine_names, "README.md", "see /wo·rk/main", 1),
    (machine_names, "constraints.txt", "--index-url https://py·pi.org/simple", 1),
    (british_spellings, "src/bursa/market/events.py", "class OrderCancel·led: ...", 1),
    (british_spellings, "docs/index.md", "The behavi·our", 1),
    (british_spellings, "README.md", "It is organi·sed", 1),
    (banned_identifiers, "src/bursa/market/book.py", "def find_symbol() -> None: ...", 1),
    (banned_identifiers, "src/bursa/market/book.py", "class EscrowAccount: ...", 1),
    (banned_identifiers, "src/bursa/market/book.py", "def f(products: int) -> None: ...", 1),
    (banned_identifiers, "src/bursa/market/book.py", "class A:\n    lease_id: int", 2),
    (headless_modules, "src/bursa/market/book.py", "x = 1", 1),
    (handlers_with_few_assertions, "src/bursa/market/engine.py", HANDLER, 1),
    (pages_without_one_title, "docs/index.md", "Text only", 1),
    (pages_without_one_title, "docs/index.md", "# One\n\n# Two", 3),
    (unknown_fragments, "changelog.d/+book.news.md", "A book.", 1),
    (unknown_fragments, "changelog.d/book.features.md", "A book.", 1),
    (unknown_fragments, "changelog.d/+book.features.md", "\n", 1),
    (long_decisions, "docs/decisions/0001-x.md", "\n" * (DECISION_LINES_MAX + 1), DECISION_LINES_MAX + 1),
]


@pytest.mark.parametrize(("checker", "path", "text", "line"), BAD_SAMPLES)
def test_a_bad_sample_is_found_at_its_line(checker: Checker, path: str, text: str, line: int) -> None:
    faults = list(checker(Source(path, text.replace("·", ""))))
    assert len(faults) == 1, faults
    assert faults[0].startswith(f"{path}:{line}: ")


GOOD_SAMPLES: list[tuple[Checker, str, str]] = [
    (long_functions, "src/bursa/market/book.py", f"def match() -> None:\n{LONG_BODY}".removesuffix("    pass\n")),
    (long_modules, "tests/test_x.py", "\n" * (MODULE_LINES_MAX + 1)),
    (
        floats_in_integer_rooms,
        "src/bursa/money.py",
        "def f(x: object) -> bool:\n    return isinstance(x, (float, str))",
    ),
    (floats_in_integer_rooms, "src/bursa/market/book.py", '"""1.5 / 2 as float."""\nhalf = 3 // 2'),
    (floats_in_integer_rooms, "src/bursa/sizing.py", "half = 1.5 / 2"),
    (todo_notes, "tests/test_x.py", "currency = 'X·XX'"),
    (bare_suppressions, "tests/test_x.py", "import os  # noqa: F401\nx = '# no·qa'"),
    (british_spellings, "src/bursa/market/events.py", "class OrderCanceled: ...  # cancellation, promise, size"),
    (banned_identifiers, "src/bursa/money/edge.py", "symbol = '€'"),
    (banned_identifiers, "src/bursa/market/book.py", "from itertools import product\npairs = product('ab')\nideal = 1"),
    (handlers_with_few_assertions, "src/bursa/market/engine.py", HANDLER + "    assert order > 0\n"),
    (handlers_with_few_assertions, "src/bursa/market/engine.py", "def only_reads() -> None: ..."),
    (pages_without_one_title, "docs/index.md", "# One\n\n```sh\n# a comment\n```\n"),
    (unknown_fragments, "changelog.d/+a-book.money-and-safety.md", "A book."),
]


@pytest.mark.parametrize(("checker", "path", "text"), GOOD_SAMPLES)
def test_a_good_sample_passes(checker: Checker, path: str, text: str) -> None:
    assert list(checker(Source(path, text.replace("·", "")))) == []


def test_every_checker_has_a_bad_sample() -> None:
    assert {checker for checker, *_ in BAD_SAMPLES} == set(CHECKERS)


@pytest.mark.parametrize("names", [["0002-b.md"], ["0001-a.md", "0003-c.md"], ["0001-a.md", "0001-b.md"], ["1-a.md"]])
def test_a_gap_in_decisions_is_found(names: list[str]) -> None:
    assert list(gaps_in_decisions(f"docs/decisions/{name}" for name in ["index.md", *names]))


def test_a_large_file_is_found() -> None:
    assert list(large_file("data.bin", FILE_BYTES_MAX + 1))
    assert not list(large_file("data.bin", FILE_BYTES_MAX))
