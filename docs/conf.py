"""Sphinx settings. `make docs` builds with every reference checked and every warning an error."""

import sys
from typing import TYPE_CHECKING

import bursa

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "bursa"
author = "The bursa authors"
copyright = "the bursa authors, Apache-2.0"
version = release = bursa.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
default_role = "literal"  # docstrings write `name`, which is code and not a link

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

# Names from outside: no inventory is fetched from the network to link them.
# A signature with <factory> in it is split at the commas inside brackets.
nitpick_ignore = [
    ("py:class", name) for name in ("list[tuple[int", "list[~typing.Annotated[str", "Callable[[]", "Pool")
]
nitpick_ignore_regex = [
    (
        r"py:.*",
        (
            r"(collections|dataclasses|datetime|decimal|enum|fractions|httpx|logging|msgspec|pathlib|psycopg"
            r"|psycopg_pool|types|typing)\..*"
        ),
    ),
    # Type variables, and names that a room keeps to itself.
    (r"py:class", r"bursa\.\w+\.\w+\.(T|T_co|Page|KnownKey)|bursa\.errors\._ApiDetails"),
]

html_theme = "furo"
html_title = f"bursa {version}"
html_show_sourcelink = False
html_copy_source = False


def link_to_public_name(
    app: "Sphinx", env: "BuildEnvironment", node: "pending_xref", contnode: "nodes.TextElement"
) -> "nodes.reference | None":
    """Resolve bursa.room.module.Name, which annotations carry, to bursa.room.Name, which the reference documents."""
    target = str(node.get("reftarget", ""))
    parts = target.split(".")
    if node.get("refdomain") != "py":
        return None
    name = parts[-1]
    rooms = [".".join(parts[:2])] if parts[0] == "bursa" else [room for room in sys.modules if room.count(".") == 1]
    domain = env.domains["py"]
    for room in sorted(room for room in rooms if room.startswith("bursa.")):
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"{room}.{name}", node, contnode)
        if found is not None:
            return found
    return None


def separate_lists(_app: "Sphinx", _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Put the empty line before a list that reStructuredText wants and a reader of the source can do without."""
    for number in range(len(lines) - 1, 0, -1):
        if lines[number].startswith("- ") and lines[number - 1] and lines[number - 1][:2] not in {"- ", "  "}:
            lines.insert(number, "")


def setup(app: "Sphinx") -> None:
    """Connect the two functions above."""
    app.connect("autodoc-process-docstring", separate_lists)
    app.connect("missing-reference", link_to_public_name)
