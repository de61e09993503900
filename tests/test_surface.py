"""The public names of each room: declared in `__all__`, documented, and listed in golden/surface.json.

A change of that file is a change of the API, and is reviewed as one. `make golden` writes it anew.
"""

import ast
import importlib
import inspect
import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import bursa

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).parent / "golden" / "surface.json"


def find_rooms() -> list[str]:
    """Name the packages and modules directly under src/bursa."""
    folder = ROOT / "src" / "bursa"
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]
    modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    return [f"bursa.{name}" for name in sorted(packages + modules)]


ROOMS = find_rooms()


def read_surface() -> dict[str, list[str]]:
    return {room: sorted(importlib.import_module(room).__all__) for room in ROOMS}


def defined_names(text: str, room: str) -> set[str]:
    """Find the public functions and classes that a room's head defines, and all that it takes from its own modules.

    A constant beside them, such as a limit, may stay out of `__all__`: it is named to be read, not to be imported.
    """
    names: set[str] = set()
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(module=str(module)) if module.startswith(f"{room}."):
                names |= {alias.asname or alias.name for alias in node.names}
    return {name for name in names if not name.startswith("_")}


def sort_key(name: str) -> tuple[int, list[str | int], str]:
    """Order names as ruff does: CONSTANTS, then Classes, then functions, digits by value."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    natural = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
    return group, natural, name


def has_own_docstring(value: object) -> bool:
    """Tell whether a class or function says something itself: inherited and generated docstrings do not count."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    generated = inspect.isclass(value) and str(text).startswith((f"{value.__name__}(", "An enumeration."))
    return bool(text and text.strip()) and not generated


def undocumented_names(module: ModuleType) -> list[str]:
    public = {name: getattr(module, name) for name in module.__all__}
    return [
        name
        for name, value in public.items()
        if (inspect.isclass(value) or inspect.isroutine(value)) and not has_own_docstring(value)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_all_is_sorted_and_exact(room: str) -> None:
    module = importlib.import_module(room)
    names: list[str] = module.__all__
    assert names == sorted(set(names), key=sort_key), f"{room}: sort __all__ (make format does it)"
    assert [name for name in names if not hasattr(module, name)] == [], f"{room}: __all__ names what is not there"
    assert module.__file__ is not None
    found = defined_names(Path(module.__file__).read_text(), room)
    assert found <= set(names), f"{room}: public, but not in __all__: {sorted(found - set(names))}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented(room: str) -> None:
    bare = undocumented_names(importlib.import_module(room))
    assert bare == [], f"{room}: no docstring of its own: {', '.join(bare)}"


def test_the_surface_is_the_golden_one() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert read_surface() == golden, "the public names changed: run `make golden` and have the diff reviewed"


def test_the_version_is_the_same_in_both_places() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert bursa.__version__ == metadata["project"]["version"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(bursa.__file__).parent / "py.typed").exists()


# ── The checks can fail ──────────────────────────────────────────────────────────────────────────────────────────────


def test_defined_names_are_found() -> None:
    text = "from bursa.x.a import A, b as c\nfrom typing import Final\nimport os\n_d = 1\nclass E: ...\ndef f(): ...\n"
    assert defined_names(text, "bursa.x") == {"A", "c", "E", "f"}


def test_names_sort_as_ruff_sorts_them() -> None:
    names = ["MICROS_10", "Money", "MICROS_9", "add", "Add"]
    assert sorted(names, key=sort_key) == ["MICROS_9", "MICROS_10", "Add", "Money", "add"]


def test_a_missing_docstring_is_found() -> None:
    class Documented:
        """Says something."""

    class Inheriting(Documented):
        pass

    module = ModuleType("sample")
    vars(module).update(__all__=["A", "B", "C", "d"], A=Documented, B=Inheriting, C=1, d=lambda: None)
    assert undocumented_names(module) == ["B", "d"]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(read_surface(), indent=2) + "\n")
    sys.stdout.write(f"wrote {GOLDEN.relative_to(ROOT)}: read its diff before you commit it\n")
