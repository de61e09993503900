"""The program as it was called, so that a suggested command works when it is pasted."""
# ruff: noqa: PLC0415 - what few calls need is imported where it is used: the root's help comes at once

from __future__ import annotations

import os
import sys
from typing import Final

from bursa.cli.commands import COMMANDS

NAME: Final = "bursa"


def as_called(text: str) -> str:
    """Return text with its commands (`bursa buy …`) named by the program that was called."""
    called = sys.argv[0] if sys.argv else NAME
    if os.path.basename(called) != NAME or called == NAME or _is_found(called):  # noqa: PTH119 - pathlib is slow to load
        return text
    import re
    import shlex

    names = "|".join(re.escape(command.name) for command in COMMANDS)
    program = shlex.quote(called)
    return re.sub(rf"(?<![\w./-]){NAME} (?=(?:{names}|COMMAND)\b)", lambda _: f"{program} ", text)


def _is_found(called: str) -> bool:
    """Tell whether a shell finds the program that was called under its bare name."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, NAME)  # noqa: PTH118 - as above
        if os.access(path, os.X_OK):
            return os.path.exists(called) and os.path.samefile(path, called)  # noqa: PTH110, PTH121 - as above
    return False
