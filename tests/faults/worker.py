"""One process of an exchange under load: a node, and tasks that send it commands and write down what it answers.

    BURSA_TEST_DSN=… python -m tests.faults.worker FOLDER NAME SEED [--web] [--finish]

It first sends again whatever an earlier run of this name left without an answer, the same commands with the same ids;
then new ones. It runs until it is killed. --web: it never leads. --finish: nothing new; when all is
answered it makes the file NAME.finished.
"""

import argparse
import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from bursa.errors import BursaError, UnavailableError
from bursa.market import Command
from bursa.sequencer import Node
from bursa.store import connect
from bursa.store.launch import PR_SET_PDEATHSIG
from tests.faults.journal import Journal
from tests.faults.market import Mix

#: Tasks that send, and the pause of each between an answer and its next command, in seconds.
SENDERS: Final = 6
PAUSE_S: Final = 0.02
#: Commands that a sender submits together, at most.
TOGETHER_MAX: Final = 4
#: Pause before a command is sent again, in seconds.
AGAIN_S: Final = 0.05
#: How often the read tables are read, in seconds.
REFRESH_S: Final = 0.3
#: Commands between two snapshots: few, so that replays begin at one and end in a tail.
SNAPSHOT_COMMANDS: Final = 400


async def run(dsn: str, folder: Path, name: str, seed: int, *, is_web: bool, is_finishing: bool) -> None:
    """Be a worker; see the module."""
    node = Node(dsn, may_lead=not is_web, snapshot_commands=SNAPSHOT_COMMANDS)
    while True:
        try:
            await node.start()
            break
        except psycopg.Error:  # the database may be down: somebody kills it too
            await asyncio.sleep(AGAIN_S)
    with Journal(folder, name) as journal:
        sent = journal.sent()
        answered = {one.command_id for one in journal.acknowledged()}
        left = [command for name, command in sent.items() if name not in answered]
        # One by one, as they were decided or not; what came together need not have been decided together.
        await asyncio.gather(*(_send(node, journal, [command]) for command in left))
        if not is_finishing:
            mix = Mix(seed + len(sent), name, len(sent))
            await asyncio.gather(_refresh(dsn, mix), *(_keep_sending(node, journal, mix) for _ in range(SENDERS)))
        (folder / f"{name}.finished").touch()
        await asyncio.Event().wait()  # others may need it to lead


async def _refresh(dsn: str, mix: Mix) -> None:
    """Keep what the mix knows of the market fresh."""
    while True:
        try:
            with connect(dsn, autocommit=True) as connection:
                mix.load(connection)
                while True:
                    await asyncio.sleep(REFRESH_S)
                    mix.refresh(connection)
        except (psycopg.Error, BursaError):
            await asyncio.sleep(AGAIN_S)


async def _keep_sending(node: Node, journal: Journal, mix: Mix) -> None:
    count = 0
    while True:
        await asyncio.sleep(PAUSE_S)
        if not mix.is_loaded:
            continue
        count = count % TOGETHER_MAX + 1
        commands = list(_take(iter(mix), count))
        journal.note_sent(commands)
        await _send(node, journal, commands, is_fresh=True)


def _take(commands: Iterator[Command], count: int) -> Iterator[Command]:
    for _ in range(count):
        yield next(commands)


async def _send(node: Node, journal: Journal, commands: list[Command], *, is_fresh: bool = False) -> None:
    """Send commands, again and again with the same ids, until they are answered."""
    while True:
        try:
            answers = await node.submit_many(commands, is_fresh=is_fresh)
        except UnavailableError:
            is_fresh = False
            await asyncio.sleep(AGAIN_S)
        else:
            journal.note_answers(commands, answers)
            return


def main() -> None:
    """Read the command line and run."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a harness that dies leaves no worker behind
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.Formatter.converter = time.gmtime
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("seed", type=int)
    parser.add_argument("--web", action="store_true")
    parser.add_argument("--finish", action="store_true")
    given = parser.parse_args()
    dsn = os.environ["BURSA_TEST_DSN"]
    asyncio.run(run(dsn, given.folder, given.name, given.seed, is_web=given.web, is_finishing=given.finish))


if __name__ == "__main__":
    main()
