"""What the operator does to a database without the API, whether an exchange runs on it or not.

A running exchange is not disturbed: its database is read beside it. An embedded database that does not run is started
for as long as the function takes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO, Final, Literal

from bursa import sequencer, store
from bursa.config import Settings
from bursa.errors import InputError
from bursa.server.bootstrap import OPERATOR_NAME, OPERATOR_SCOPES
from bursa.server.database import Database, reach_database
from bursa.services import issue_key
from bursa.wire import NewKey, Scope

ExportForm = Literal["beancount", "jsonl", "csv"]

_FIND_OPERATOR: Final = "SELECT party_id FROM bursa.party_profiles WHERE name = %s ORDER BY party_id LIMIT 1"
_FIND_PARTY: Final = "SELECT party_id FROM bursa.parties WHERE party_id = %s"


def verify(settings: Settings, *, from_genesis: bool = True) -> sequencer.VerifyReport:
    """Replay the log and compare digest, read tables and ledger with the live ones.

    From the first command, or (``from_genesis`` False) from the newest snapshot, trusting what lies before it.
    DataDirectoryError: there is no exchange in the data folder. LogError: the log cannot be read.
    """
    with reach_database(settings) as database:
        return sequencer.verify(database.reader, from_genesis=from_genesis)


def export(settings: Settings, form: ExportForm, out: BinaryIO | Path) -> int:
    """Write the whole ledger to a file that does not exist yet, or to a stream; return the number of rows."""
    with reach_database(settings) as database:
        if not isinstance(out, Path):
            return sequencer.export(database.reader, form, out)
        try:
            # "x": what is there already is never overwritten.
            with out.open("xb") as file:
                return sequencer.export(database.reader, form, file)
        except OSError as error:
            raise InputError("out", str(out), f"a file that can be made ({error.strerror})") from None


def backup(settings: Settings, target: Path) -> Path:
    """Write a checked backup to a folder that is empty or absent, and return it; the exchange may run meanwhile."""
    with reach_database(settings) as database:
        return store.backup(_source_of(database), target)


def restore(settings: Settings, source: Path) -> Path:
    """Bring a backup back into the data folder (empty or absent), or into the database of BURSA_DATABASE_URL.

    Returns the data folder; its next start goes on where the backup was made. DataDirectoryError: it holds something.
    """
    if settings.database_url:
        store.restore(source, settings.database_url)
    else:
        settings.data_dir.parent.mkdir(parents=True, exist_ok=True)
        store.restore(source, settings.data_dir)
    return settings.data_dir


def create_key(
    settings: Settings, *, party: int | None = None, name: str = "admin", scopes: frozenset[Scope] | None = None
) -> NewKey:
    """Make a key of a party, or (``party`` None) of the operator, whose keys may administer the exchange.

    ``scopes`` None: all for the operator, else all but admin. InputError: there is no such party yet.
    """
    with reach_database(settings) as database:
        return asyncio.run(_issue(database.app, party, name, scopes))


async def _issue(dsn: str, party: int | None, name: str, scopes: frozenset[Scope] | None) -> NewKey:
    pool = await store.open_pool(dsn, application_name="bursa admin", size_max=1)
    try:
        async with pool.connection() as connection:
            query, value = (_FIND_OPERATOR, OPERATOR_NAME) if party is None else (_FIND_PARTY, party)
            row = await (await connection.execute(query, (value,))).fetchone()
        if row is None:
            where = "an exchange that was started once" if party is None else "a party of this exchange"
            raise InputError("party", value, where)
        default = OPERATOR_SCOPES if party is None else OPERATOR_SCOPES - {Scope.ADMIN}
        return await issue_key(
            pool, party_id=row[0], name=name, scopes=default if scopes is None else scopes, is_operator=party is None
        )
    finally:
        await pool.close()


def _source_of(database: Database) -> store.EmbeddedPostgres | str:
    return database.migrator if database.postgres is None else database.postgres
