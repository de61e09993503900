"""Any other PostgreSQL, by its address: here an embedded one in that part, stripped of what the supervisor sets up."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from bursa.errors import DatabaseUnavailableError, MigrationError
from bursa.store import EmbeddedPostgres, connect, dump_schema, migrate, open_pool, role_dsn
from tests.postgres import make_folder
from tests.store.test_schema import SCHEMA

ROLES = "bursa_app, bursa_reader, bursa_migrator"
#: Logins of the foreign server: may make roles or not.
MAKER, PLAIN = "shop owner", "plain"


@pytest.fixture(scope="module")
def foreign() -> Iterator[EmbeddedPostgres]:
    with make_folder() as folder, EmbeddedPostgres(folder / "data") as server:
        run(server, "DROP DATABASE bursa", f"DROP ROLE {ROLES}")
        run(
            server,
            f"CREATE ROLE \"{MAKER}\" LOGIN CREATEROLE PASSWORD 'm:@/ %'",
            f"CREATE ROLE {PLAIN} LOGIN PASSWORD 'p'",
        )
        yield server


def run(server: EmbeddedPostgres, *statements: str) -> None:
    with connect(server.dsn("superuser", "postgres"), autocommit=True) as link:
        for statement in statements:
            link.execute(statement.encode())


@pytest.fixture
def clean(foreign: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """Give the foreign server without roles of ours, with one empty database for each login."""
    run(foreign, f'CREATE DATABASE made OWNER "{MAKER}"', f"CREATE DATABASE plain OWNER {PLAIN}")
    yield foreign
    run(foreign, "DROP DATABASE made WITH (FORCE)", "DROP DATABASE plain WITH (FORCE)", f"DROP ROLE IF EXISTS {ROLES}")


def dsn_of(server: EmbeddedPostgres, user: str) -> str:
    database, secret = ("made", "m:@/ %") if user == MAKER else ("plain", "p")
    return make_conninfo(server.dsn("superuser"), dbname=database, user=user, password=secret)


def test_a_login_that_may_make_roles_needs_no_help(clean: EmbeddedPostgres) -> None:
    dsn = dsn_of(clean, MAKER)
    assert migrate(dsn)
    assert migrate(dsn) == ()
    assert dump_schema(dsn) == SCHEMA.read_text()
    with connect(role_dsn(dsn, "app")) as link:
        assert link.execute("SELECT session_user, current_user").fetchone() == (MAKER, "bursa_app")


def test_sessions_act_as_their_role_and_stay_it(clean: EmbeddedPostgres) -> None:
    dsn = dsn_of(clean, MAKER)
    migrate(dsn)
    with connect(role_dsn(dsn, "app"), autocommit=True) as link:
        link.execute("INSERT INTO bursa.fx_rates VALUES ('USD', '2026-01-01', 1100000, 'test')")
        link.execute("RESET ROLE")  # back to where the session began, which is the role
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute("DELETE FROM bursa.postings")
    with connect(role_dsn(dsn, "reader"), autocommit=True) as link:
        assert link.execute("SELECT rate_micros FROM bursa.fx_rates").fetchall() == [(1_100_000,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute("DELETE FROM bursa.fx_rates")


def test_a_login_that_may_not_is_told_what_an_administrator_runs(clean: EmbeddedPostgres) -> None:
    dsn = dsn_of(clean, PLAIN)
    with pytest.raises(MigrationError, match="login: got 'plain'") as caught:
        migrate(dsn)
    advice = str(caught.value).partition("let an administrator run: ")[2]
    run(clean, *advice.split(";")[:-1])
    assert migrate(dsn)
    with connect(role_dsn(dsn, "app")) as link:
        assert link.execute("SELECT current_user").fetchone() == ("bursa_app",)


def test_a_superuser_can_be_the_login(clean: EmbeddedPostgres) -> None:
    dsn = clean.dsn("superuser", "made")
    assert migrate(dsn)
    with connect(role_dsn(dsn, "app")) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute("TRUNCATE bursa.orders")


def test_two_databases_of_one_server_are_migrated_by_two_logins(clean: EmbeddedPostgres) -> None:
    migrate(dsn_of(clean, MAKER))
    run(clean, f'GRANT {ROLES} TO {PLAIN} GRANTED BY "{MAKER}"')
    migrate(dsn_of(clean, PLAIN))
    for user in (MAKER, PLAIN):
        with connect(role_dsn(dsn_of(clean, user), "reader")) as link:
            assert link.execute("SELECT count(*) FROM bursa.orders").fetchone() == (0,)


def test_an_address_keeps_its_own_options_beside_ours(clean: EmbeddedPostgres) -> None:
    dsn = dsn_of(clean, MAKER)
    migrate(dsn)
    with connect(role_dsn(make_conninfo(dsn, options="-c work_mem=3MB"), "app"), statement_limit_s=7) as link:
        row = link.execute(
            "SELECT current_user, current_setting('work_mem'), current_setting('statement_timeout'),"
            " current_setting('application_name')"
        ).fetchone()
        assert row == ("bursa_app", "3MB", "7s", "bursa")


def test_a_pool_outlives_the_end_of_its_sessions(clean: EmbeddedPostgres) -> None:
    migrate(dsn_of(clean, MAKER))

    async def use() -> None:
        pool = await open_pool(role_dsn(dsn_of(clean, MAKER), "app"), size_min=2, statement_limit_s=0.05)
        try:
            async with pool.connection() as link:
                row = await (await link.execute("SELECT current_user")).fetchone()
                assert row == ("bursa_app",)
                assert link.autocommit
                with pytest.raises(psycopg.errors.QueryCanceled):
                    await link.execute("SELECT pg_sleep(5)")
            run(
                clean,
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'bursa'"
                " AND datname = 'made'",
            )
            async with pool.connection() as link:
                await link.execute("SELECT 1")
        finally:
            await pool.close()

    asyncio.run(use())


@pytest.mark.parametrize("dsn", ["host=/nowhere dbname=x user=u password=hush", "postgresql://u:hush@/x?host=/nowhere"])
def test_an_unreachable_database_is_named_without_its_password(dsn: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match="database x at /nowhere as u: got ") as caught:
        connect(dsn)
    assert "hush" not in str(caught.value)


def test_a_pool_of_an_unreachable_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bursa.store.connections.CONNECT_LIMIT_S", 0.2)
    with pytest.raises(DatabaseUnavailableError, match="database x at /nowhere"):
        asyncio.run(open_pool("host=/nowhere dbname=x"))


@pytest.mark.parametrize("dsn", ["nonsense hush", "postgresql://u:hush@[", "sometimes=hush"])
def test_an_address_that_is_none_is_refused_without_showing_it(dsn: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match="postgresql://user:password@host") as caught:
        connect(dsn)
    assert "hush" not in str(caught.value)
