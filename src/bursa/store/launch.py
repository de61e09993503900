"""The small program between the supervisor and PostgreSQL. It runs as a script, in a process of its own.

It does what must happen between fork and exec and is not safe in a process with threads: give up root, ask the kernel
for a SIGINT (PostgreSQL's fast shutdown) when the supervisor dies, and only then become PostgreSQL. It imports nothing
from bursa, so that it starts fast and works where the new user cannot read the package.

    launch.py run UID SUPERVISOR_PID PROGRAM [ARGUMENT...]   become PROGRAM
    launch.py look UID FOLDER                                print as JSON what UID sees: see `look`
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

#: prctl(2): the signal that a process gets when the thread that started it ends.
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Do what the command line says; see the module's head."""
    verb, uid, *rest = arguments
    if verb == "run":
        run(int(uid), int(rest[0]), rest[1:])
    else:
        give_up_root(int(uid))
        sys.stdout.write(json.dumps(look(Path(rest[0]))))


def run(uid: int, supervisor: int, command: list[str]) -> None:
    """Become the command as user uid; it gets SIGINT when the thread that started us ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    give_up_root(uid)  # first: a change of user clears the signal
    if prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != supervisor:  # it died before we asked
        raise SystemExit(1)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def give_up_root(uid: int) -> None:
    """Become user uid with no other groups, for good. Does nothing where we are uid already."""
    if os.geteuid() == uid:
        return
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def look(folder: Path) -> dict[str, Any]:
    """Return what this user sees of a cluster's folder.

    blocked: the first parent of folder that this user may not enter, or None.
    pids: the live processes of PostgreSQL whose working directory is folder; all of a cluster's live in its folder.
    """
    parents = [*reversed(folder.parents)]
    blocked = next((str(parent) for parent in parents if not os.access(parent, os.X_OK, effective_ids=True)), None)
    return {"blocked": blocked, "pids": [] if blocked else find_inhabitants(folder)}


def find_inhabitants(folder: Path) -> list[int]:
    """List the pids of PostgreSQL's processes that this user may see and that live in folder, zombies left out."""
    try:
        home = folder.stat()
    except OSError:
        return []
    pids = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all we need, thousands of them
        if not name.isdigit():
            continue
        try:
            there = os.stat(f"/proc/{name}/cwd")  # noqa: PTH116 - as above
            program = os.readlink(f"/proc/{name}/exe").removesuffix(" (deleted)")  # noqa: PTH115 - as above
        except OSError:  # gone, a zombie, or not ours to see
            continue
        is_home = (there.st_dev, there.st_ino) == (home.st_dev, home.st_ino)
        if is_home and program.endswith("/postgres"):  # not somebody's shell
            pids.append(int(name))
    return pids


if __name__ == "__main__":
    main(sys.argv[1:])
