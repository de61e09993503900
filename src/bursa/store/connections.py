"""How processes reach the database: one connection, a pool, and the roles within a foreign server.

A DSN is text in libpq's form; it may hold a password, so errors never show it.
"""

from typing import Any, Final, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from bursa.errors import DatabaseUnavailableError, DatabaseVersionError
from bursa.store.cluster import ROLE_NAMES

#: The oldest PostgreSQL that the schema works on.
POSTGRES_MAJOR_MIN: Final = 15
#: How long to wait for a connection, in seconds.
CONNECT_LIMIT_S: Final = 5
#: How long one statement may run before the server stops it, in seconds.
STATEMENT_LIMIT_S: Final = 30.0
#: How long a transaction may sit idle before the server ends its session, in seconds.
IDLE_LIMIT_S: Final = 60.0
#: Connections that a pool keeps, and those it may open.
POOL_MIN: Final = 1
POOL_MAX: Final = 10
#: Requests that may wait for a connection of a pool; more are refused at once.
POOL_WAITING_MAX: Final = 200
#: How long a request waits for a connection of a pool, in seconds.
POOL_WAIT_S: Final = 5.0

#: The one encoding of a database that holds every text of ours; SQL_ASCII gives bytes instead of text.
ENCODING: Final = "UTF8"
#: Settings of a server that must not be off, or it may lose commits that it has confirmed.
_DURABLE: Final = ("fsync", "synchronous_commit", "full_page_writes")

Row = tuple[Any, ...]


def connect(
    dsn: str,
    *,
    autocommit: bool = False,
    application_name: str = "bursa",
    statement_limit_s: float | None = None,
) -> psycopg.Connection[Row]:
    """Open one connection; DatabaseUnavailableError if there is none within CONNECT_LIMIT_S."""
    try:
        return psycopg.connect(
            _complete(dsn, application_name, statement_limit_s), autocommit=autocommit, connect_timeout=CONNECT_LIMIT_S
        )
    except psycopg.Error as error:
        raise DatabaseUnavailableError(
            _describe(dsn), _last_words(error), "a database that takes connections"
        ) from error


async def open_pool(
    dsn: str,
    *,
    application_name: str = "bursa",
    size_min: int = POOL_MIN,
    size_max: int = POOL_MAX,
    statement_limit_s: float | None = STATEMENT_LIMIT_S,
) -> AsyncConnectionPool[psycopg.AsyncConnection[Row]]:
    """Open a pool and wait for its first connections; DatabaseUnavailableError if there are none in time.

    Its connections are in autocommit mode (use `conn.transaction()`), prepare what they run often, and are checked when
    taken, so that a pool outlives a restart of the server. Close it with `await pool.close()`.
    """
    pool: AsyncConnectionPool[psycopg.AsyncConnection[Row]] = AsyncConnectionPool(
        _complete(dsn, application_name, statement_limit_s),
        connection_class=psycopg.AsyncConnection[Row],
        kwargs={"autocommit": True, "connect_timeout": CONNECT_LIMIT_S},
        min_size=size_min,
        max_size=size_max,
        max_waiting=POOL_WAITING_MAX,
        timeout=POOL_WAIT_S,
        check=AsyncConnectionPool.check_connection,
        name=application_name,
        open=False,
    )
    try:
        await pool.open(wait=True, timeout=CONNECT_LIMIT_S)
    except PoolTimeout as error:
        await pool.close()
        raise DatabaseUnavailableError(_describe(dsn), str(error), "a database that takes connections") from error
    return pool


def role_dsn(dsn: str, role: Literal["app", "reader", "migrator"]) -> str:
    """Return a DSN whose sessions act as a role of bursa: for a login on a foreign server (BURSA_DATABASE_URL).

    The login must be a member of the role; migrate() sees to that where it may.
    """
    return _add_options(dsn, f"-c role={ROLE_NAMES[role]}")


def check_server(link: psycopg.Connection[Row], *, allow_unsafe: bool = False) -> None:
    """Refuse a server that is too old, a database that is not UTF8, or (unless allow_unsafe) one that may lose commits.

    DatabaseVersionError: says what it is, and what is right.
    """
    version = link.info.server_version
    if version < POSTGRES_MAJOR_MIN * 10_000:
        raise DatabaseVersionError(
            "server version", f"{version // 10_000}", f"PostgreSQL {POSTGRES_MAJOR_MIN} or newer"
        )
    encoding = link.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise DatabaseVersionError(
            f"encoding of the database {link.info.dbname}",
            encoding,
            f"{ENCODING}: CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0",
        )
    for name in () if allow_unsafe else _DURABLE:
        row = link.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row is None or row[0] == "off":
            raise DatabaseVersionError(
                name, "off", "on, or confirmed orders may be lost; BURSA_ALLOW_UNSAFE_DATABASE=1 accepts that"
            )


def _complete(dsn: str, application_name: str, statement_limit_s: float | None) -> str:
    """Add our name and limits to a DSN."""
    options = f"-c idle_in_transaction_session_timeout={int(IDLE_LIMIT_S * 1000)}"
    if statement_limit_s is not None:
        options += f" -c statement_timeout={int(statement_limit_s * 1000)}"
    return make_conninfo(_add_options(dsn, options), application_name=application_name)


def _add_options(dsn: str, options: str) -> str:
    try:
        before = conninfo_to_dict(dsn).get("options")
    except psycopg.ProgrammingError as error:
        # The text is not shown: it may hold a password. libpq's own message may quote it, so that is left out too.
        raise DatabaseUnavailableError("database address", "text that libpq cannot read", _DSN_FORM) from error
    return make_conninfo(dsn, options=f"{before} {options}" if before else options)


_DSN_FORM: Final = "postgresql://user:password@host:5432/database"


def _last_words(error: psycopg.Error) -> str:
    """Return the part of libpq's message that says why, without the address that it begins with."""
    text = " ".join(str(error).split())
    return text.rpartition("failed: ")[2] or text


def _describe(dsn: str) -> str:
    """Name a database without its secrets."""
    parts = conninfo_to_dict(dsn)
    return f"database {parts.get('dbname', '')} at {parts.get('host', 'the default host')} as {parts.get('user', '')}"
