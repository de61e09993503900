"""Forward-only migrations: plain SQL files, each applied once, in one transaction, with its checksum written down.

Invariants: files are numbered from 1 without a gap; an applied file never changes; one process migrates at a time (an
advisory lock); the schema belongs to bursa_migrator; a database that is newer than the program is left alone.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final, LiteralString, NoReturn

import psycopg
from psycopg import sql

from bursa.errors import DatabaseUnavailableError, MigrationError
from bursa.store.cluster import ROLE_NAMES
from bursa.store.connections import Row, check_server, connect

#: The advisory lock of migrations, any number that nobody else uses.
MIGRATION_LOCK: Final = 4_702_111_234_474_983_745
#: How long to wait for another process that migrates, in seconds.
LOCK_LIMIT_S: Final = 120
#: How often the rights of the login are asked for again when two processes set them at once.
GRANT_TRIES_MAX: Final = 5

_FOLDER: Final = resources.files("bursa.store") / "migrations"
_ROLES: Final = (ROLE_NAMES["migrator"], ROLE_NAMES["app"], ROLE_NAMES["reader"])


@dataclass(frozen=True)
class _Migration:
    number: int
    name: str
    text: str
    sha256: bytes


def migrate(dsn: str, *, allow_unsafe: bool = False) -> tuple[int, ...]:
    """Bring a database up to this program's schema and return the numbers of the migrations applied just now.

    dsn: the login that owns the database (embedded: its dsn("migrator")). On a foreign server the roles are made if the
    login may; if not, the error holds the SQL for its administrator.
    MigrationError: an applied file changed or is missing, the database is newer, roles cannot be made, or SQL failed.
    DatabaseVersionError: see check_server. DatabaseUnavailableError: no connection, or another process holds the lock.
    """
    known = _read_files()
    with connect(dsn, autocommit=True, application_name="bursa migrate") as link:
        check_server(link, allow_unsafe=allow_unsafe)
        try:
            link.execute(f"SET lock_timeout = '{LOCK_LIMIT_S}s'")
            link.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
            prepare_roles(link)
            return _apply_missing(link, known)
        except psycopg.errors.LockNotAvailable as error:
            raise DatabaseUnavailableError("migration lock", "held by another process", "to be free") from error
        except psycopg.OperationalError as error:
            raise DatabaseUnavailableError("database", str(error), "a connection that lasts") from error


def _read_files() -> list[_Migration]:
    """Return the migrations of this program, by number."""
    found = []
    for file in _FOLDER.iterdir():
        if file.name.endswith(".sql"):
            data = file.read_bytes()
            number = int(file.name.partition("_")[0])
            found.append(_Migration(number, file.name, data.decode(), hashlib.sha256(data).digest()))
    found.sort(key=lambda migration: migration.number)
    for number, migration in enumerate(found, 1):
        if migration.number != number:
            raise MigrationError(
                "migration file", migration.name, f"number {number:04}, which is missing; reinstall bursa"
            )
    return found


def _apply_missing(link: psycopg.Connection[Row], known: list[_Migration]) -> tuple[int, ...]:
    applied = _read_applied(link)
    for number, (name, sha256) in applied.items():
        if number > len(known):
            raise MigrationError(name, f"number {number}", f"at most {len(known)}: the database is newer; update bursa")
        file = known[number - 1]
        if (file.name, file.sha256) != (name, sha256):
            _refuse_changed(name, sha256, file)
    missing = [migration for migration in known if migration.number not in applied]
    if missing and applied and missing[0].number < max(applied):
        raise MigrationError(missing[0].name, "not applied", f"applied, since number {max(applied)} is")
    for migration in missing:
        try:
            with link.transaction():
                link.execute(migration.text.encode())
                link.execute(
                    "INSERT INTO bursa.migrations (number, name, sha256) VALUES (%s, %s, %s)",
                    (migration.number, migration.name, migration.sha256),
                )
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            raise MigrationError(migration.name, str(error), "SQL that the server runs") from error
    return tuple(migration.number for migration in missing)


def _refuse_changed(name: str, sha256: bytes, file: _Migration) -> NoReturn:
    raise MigrationError(
        "migration",
        f"{file.name} with sha256 {file.sha256.hex()[:16]}",
        f"{name} with sha256 {sha256.hex()}, as applied (the file's is {file.sha256.hex()}); restore it, add a new one",
    )


def _read_applied(link: psycopg.Connection[Row]) -> dict[int, tuple[str, bytes]]:
    """Return name and checksum of the applied migrations, by number, ascending."""
    if not _is_true(link, "SELECT to_regclass('bursa.migrations') IS NOT NULL"):
        return {}
    rows = link.execute("SELECT number, name, sha256 FROM bursa.migrations ORDER BY number").fetchall()
    return {number: (name, bytes(sha256)) for number, name, sha256 in rows}


# ── Roles ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_roles(link: psycopg.Connection[Row]) -> None:
    """Make the roles where they are missing, let the login act as them, and act as bursa_migrator from here on.

    MigrationError, with the SQL for an administrator, if the login may not.
    """
    user = link.info.user
    # Roles belong to the whole server: another database's migration may make the same ones at the same time.
    for attempt in range(GRANT_TRIES_MAX):
        try:
            for role in _ROLES:
                _prepare_role(link, user, role)
            _let_migrator_create(link, user)
        except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation, psycopg.errors.InternalError_):
            if attempt == GRANT_TRIES_MAX - 1:
                raise
        except psycopg.errors.InsufficientPrivilege as error:
            raise MigrationError(
                "login", user, f"one that may make roles; or let an administrator run: {_ask_for(link)}"
            ) from error
        else:
            return


def _prepare_role(link: psycopg.Connection[Row], user: str, role: str) -> None:
    name = sql.Identifier(role)
    if not link.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall():
        link.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
    if user == ROLE_NAMES["migrator"]:  # an embedded server's login, as are the others
        return
    # From 16 on, the maker of a role is its member but may not act as it.
    right = "SET" if link.info.server_version >= 160_000 else "MEMBER"  # noqa: PLR2004 - PostgreSQL's way to write 16
    if not _is_true(link, "SELECT pg_has_role(%s, %s)", role, right):
        link.execute(sql.SQL("GRANT {} TO {}").format(name, sql.Identifier(user)))


def _let_migrator_create(link: psycopg.Connection[Row], user: str) -> None:
    migrator = ROLE_NAMES["migrator"]
    if not _is_true(link, "SELECT has_database_privilege(%s, current_database(), 'CREATE')", migrator):
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}")
        link.execute(grant.format(sql.Identifier(link.info.dbname), sql.Identifier(migrator)))
    if user != migrator:
        link.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(migrator)))


def _is_true(link: psycopg.Connection[Row], query: LiteralString, *values: str) -> bool:
    row = link.execute(query, values).fetchone()
    return row is not None and bool(row[0])


def _ask_for(link: psycopg.Connection[Row]) -> str:
    """Return the SQL that an administrator runs where the login may not."""
    rows = link.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", (list(_ROLES),)).fetchall()
    there = {row[0] for row in rows}
    makes = "".join(f"CREATE ROLE {role} NOLOGIN; " for role in _ROLES if role not in there)
    base, user = (_quote_name(name) for name in (link.info.dbname, link.info.user))
    return f"{makes}GRANT {', '.join(_ROLES)} TO {user}; GRANT CREATE ON DATABASE {base} TO {_ROLES[0]};"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
