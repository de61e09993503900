"""Backups: made while the exchange runs, checked before they count, restored only into what is empty.

An embedded cluster is copied whole by pg_basebackup, with the log that makes it consistent, and checked by
pg_verifybackup. A foreign database is dumped by pg_dump, and the dump is read back once. A backup that fails its check
never gets the name that was asked for. It holds everything that the exchange knows: keep it as safe as the data.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bursa.errors import DataDirectoryError, StoreError
from bursa.store import cluster as place
from bursa.store.connections import connect
from bursa.store.embedded import EmbeddedPostgres
from bursa.store.programs import find_programs, run_program
from bursa.store.schema import prepare_roles

#: The file of a backup that is a dump. A folder without it is a copy of a cluster.
_DUMP: Final = "bursa.dump"
_MANIFEST: Final = "backup_manifest"


def backup(source: EmbeddedPostgres | str, target: Path) -> Path:
    """Write a checked backup to the folder target and return it.

    source: an embedded server that runs (also under another process of the same system user), or a DSN that may act as
    bursa_migrator. DataDirectoryError: target holds something. StoreError: it failed; nothing is left of it.
    """
    target = target.absolute()
    _refuse_full(target)
    draft = target.with_name(f"{target.name}.new")
    _refuse_full(draft)
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.mkdir(mode=0o700, exist_ok=True)
    try:
        if isinstance(source, EmbeddedPostgres):
            _copy_cluster(source, draft)
            check_backup(draft)
        else:
            _dump(source, draft / _DUMP)
            check_backup(draft)
        draft.rename(target)  # an empty folder of that name gives way
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def check_backup(folder: Path) -> None:
    """Read a backup through; StoreError if a byte of it is not what was written."""
    if (folder / _MANIFEST).is_file():
        run_program([_program("pg_verifybackup"), "--exit-on-error", "--quiet", str(folder)])
    elif (folder / _DUMP).is_file():
        run_program([_program("pg_restore"), "--file=/dev/null", str(folder / _DUMP)])
    else:
        raise StoreError("backup", str(folder), f"a folder that holds {_MANIFEST} or {_DUMP}")


def restore(source: Path, target: Path | str) -> None:
    """Bring a backup back, after reading it through.

    target: for a copy of a cluster, a data folder that is absent or empty; EmbeddedPostgres starts it and gives it new
    passwords. For a dump, the DSN of a database without the schema `bursa`, by a login as migrate() wants it.
    DataDirectoryError: target holds something. StoreError: the backup is damaged, or the target of the wrong kind.
    """
    source = source.absolute()
    check_backup(source)
    is_dump = (source / _DUMP).is_file()
    if isinstance(target, str):
        if not is_dump:
            raise StoreError("target", "the address of a database", "a data folder: the backup is a copy of a cluster")
        _load(source / _DUMP, target)
        return
    if is_dump:
        raise StoreError("target", str(target), "the address of a database: the backup is a dump")
    _refuse_full(target)
    place.make_folder(target)
    found = place.find_cluster(target)
    draft = found.folder / "postgres.new"
    shutil.copytree(source, draft, symlinks=True)
    for folder, _, names in os.walk(draft):
        Path(folder).chmod(0o700)
        for name in names:
            (Path(folder) / name).chmod(0o600)
    place.give_to(draft, found.uid)
    os.sync()
    draft.rename(found.data)


def dump_schema(dsn: str) -> str:
    """Return the schema `bursa` of a database as SQL without comments, settings or blank lines that repeat.

    Equal text means equal tables, triggers and rights. dsn: a login that may act as bursa_migrator.
    """
    text = _run_with_dsn("pg_dump", dsn, ["--schema-only", "--schema=bursa", *_AS_MIGRATOR])
    lines: list[str] = []
    for line in text.splitlines():
        # \restrict and \unrestrict carry a random word each time.
        is_noise = line.startswith(("--", "SET ", "\\", "SELECT pg_catalog.set_config("))
        if not is_noise and (line or (lines and lines[-1])):
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


_AS_MIGRATOR: Final = (f"--role={place.ROLE_NAMES['migrator']}",)


def _refuse_full(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataDirectoryError("target folder", str(folder), "a folder that is absent or empty")


def _copy_cluster(source: EmbeddedPostgres, draft: Path) -> None:
    options = ["--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256"]
    dsn = source.dsn("superuser", "postgres")
    run_program([_program("pg_basebackup"), f"--dbname={dsn}", f"--pgdata={draft}", *options])


def _dump(dsn: str, file: Path) -> None:
    _run_with_dsn("pg_dump", dsn, ["--format=custom", "--schema=bursa", f"--file={file}", *_AS_MIGRATOR])


def _load(file: Path, dsn: str) -> None:
    with connect(dsn, autocommit=True) as link:
        if link.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'bursa'").fetchall():
            raise DataDirectoryError("target database", link.info.dbname, "a database without a schema bursa")
        prepare_roles(link)
    options = ["--exit-on-error", "--single-transaction", "--no-owner", *_AS_MIGRATOR]
    _run_with_dsn("pg_restore", dsn, [*options, str(file)])


def _run_with_dsn(name: str, dsn: str, options: list[str]) -> str:
    """Run a program on a database; the password goes through its environment, since all can read command lines."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise StoreError("database address", "text that libpq cannot read", "a DSN") from None
    password = parts.pop("password", None)
    extra = {} if password is None else {"PGPASSWORD": str(password)}
    return run_program([_program(name), f"--dbname={make_conninfo('', **parts)}", *options], extra=extra)


def _program(name: str) -> str:
    return str(find_programs() / "bin" / name)
