"""The schema is what the migrations make, the roles may do what they must and no more, and no entry is unbalanced.

`python -m tests.store.test_schema` writes schema.sql anew, the schema as one file to read; its diff is reviewed.
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from bursa.store import connect, dump_schema
from tests.postgres import Database, make_database, run_postgres

SCHEMA = Path(str(resources.files("bursa.store"))) / "schema.sql"
#: What a batch adds and nobody changes.
FIXED_TABLES = ("command_log", "entries", "postings")
#: Tables that the app role may not see or may only read.
CLOSED_TABLES = ("migrations", "unbalanced_entries")

ENTRY = "INSERT INTO bursa.entries VALUES (%s, 1, 'top_up', 1, 7, 0, 0, '')"
POSTING = "INSERT INTO bursa.postings VALUES (%s, %s, %s, 'wallet', %s, %s, 7)"

Link = psycopg.Connection[tuple[object, ...]]


def test_schema_file_is_what_the_migrations_make(database: Database) -> None:
    assert dump_schema(database.dsn("migrator")) == SCHEMA.read_text(), "run python -m tests.store.test_schema"


# ── Rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_rights(database: Database, role: str) -> dict[str, set[str]]:
    query = """
        SELECT c.relname, array_remove(ARRAY(
            SELECT CASE WHEN has_table_privilege(%s, c.oid, p) THEN p END
            FROM unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER','MAINTAIN']) AS p
        ), NULL)
        FROM pg_class AS c WHERE c.relnamespace = 'bursa'::regnamespace AND c.relkind = 'r'"""
    with connect(database.dsn("superuser")) as link:
        return {name: set(rights) for name, rights in link.execute(query, (role,)).fetchall()}


def test_app_adds_to_the_log_and_changes_the_rest(database: Database) -> None:
    rights = read_rights(database, "bursa_app")
    assert {name: rights.pop(name) for name in FIXED_TABLES} == {key: {"SELECT", "INSERT"} for key in FIXED_TABLES}
    assert rights.pop("migrations") == {"SELECT"}
    assert rights.pop("unbalanced_entries") == set()
    assert len(rights) == 17
    assert set(map(frozenset, rights.values())) == {frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})}


def test_reader_only_reads_and_sees_no_keys(database: Database) -> None:
    rights = read_rights(database, "bursa_reader")
    hidden = {name for name, held in rights.items() if not held}
    assert hidden == {"api_keys", "unbalanced_entries"}
    assert all(held == {"SELECT"} for name, held in rights.items() if name not in hidden)


@pytest.mark.parametrize("table", FIXED_TABLES)
@pytest.mark.parametrize("verb", ["UPDATE bursa.{} SET seq = 2", "DELETE FROM bursa.{}", "TRUNCATE bursa.{}"])
def test_app_is_refused_to_change_what_is_fixed(database: Database, table: str, verb: str) -> None:
    column = "entry_id" if table == "postings" else "seq"
    with connect(database.dsn("app")) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute(verb.replace("seq", column).format(table).encode())


def test_app_is_refused_to_empty_any_table(database: Database) -> None:
    with connect(database.dsn("app"), autocommit=True) as link:
        for table in read_rights(database, "bursa_app"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute(sql.SQL("TRUNCATE bursa.{}").format(sql.Identifier(table)))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE bursa.postings DISABLE TRIGGER check_added_postings",
        "SET session_replication_role = replica",
        "CREATE TABLE bursa.mine ()",
        "CREATE FUNCTION bursa.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SELECT bursa.is_in_progress('3')",
        "SET ROLE bursa_migrator",
        "INSERT INTO bursa.migrations VALUES (9, 'x', '')",
        "COPY bursa.orders TO PROGRAM 'cat'",
    ],
)
def test_app_cannot_get_around_its_rights(database: Database, statement: str) -> None:
    with connect(database.dsn("app"), autocommit=True) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute(statement.encode())


# ── Entries balance ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def link(database: Database) -> Iterator[Link]:
    with connect(database.dsn("app")) as opened:
        yield opened
        opened.rollback()


def post(link: Link, entry_id: int, *lines: tuple[str, int]) -> None:
    """Add postings in one statement each; an amount above 0 is a debit, below 0 a credit."""
    known = link.execute("SELECT count(*) FROM bursa.postings WHERE entry_id = %s", (entry_id,)).fetchone()
    assert known is not None
    first = known[0]
    assert isinstance(first, int)
    for number, (currency, micros) in enumerate(lines, first):
        link.execute(POSTING, (entry_id, number, currency, max(micros, 0), max(-micros, 0)))


def copy_postings(link: Link, rows: list[tuple[int, int, str, str, int, int, int]]) -> None:
    with link.cursor().copy("COPY bursa.postings FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["int8", "int2", "text", "text", "int8", "int8", "int8"])
        for row in rows:
            copy.write_row(row)


def count(link: Link, table: str) -> object:
    row = link.execute(sql.SQL("SELECT count(*) FROM bursa.{}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return row[0]


def test_balanced_entry_in_one_copy_is_kept(link: Link) -> None:
    for entry_id in range(1, 101):
        link.execute(ENTRY, (entry_id,))
    rows = [(entry, line, "EUR", "wallet", 5 * line, 5 * (1 - line), 7) for entry in range(1, 101) for line in (0, 1)]
    copy_postings(link, rows)
    link.commit()
    assert count(link, "postings") == 200


def test_entry_in_several_statements_is_kept_if_it_balances_at_last(link: Link, database: Database) -> None:
    link.execute(ENTRY, (1,))
    post(link, 1, ("EUR", 10), ("USD", -3), ("EUR", -4), ("EUR", -6), ("USD", 3))
    link.commit()
    assert count(link, "postings") == 5
    with connect(database.dsn("migrator")) as owner:
        assert count(owner, "unbalanced_entries") == 0


def test_unbalanced_entry_is_refused_at_commit_with_its_number_and_currency(link: Link) -> None:
    link.execute(ENTRY, (41,))
    link.execute(ENTRY, (42,))
    post(link, 41, ("EUR", 10), ("EUR", -10))
    post(link, 42, ("EUR", 10), ("USD", -10))
    with pytest.raises(
        psycopg.errors.CheckViolation, match=r"entry 42 does not balance in (EUR|USD).* -?10 micro-units"
    ):
        link.commit()
    assert (count(link, "entries"), count(link, "postings")) == (0, 0)


def test_one_wrong_micro_unit_in_a_large_copy_is_refused(link: Link) -> None:
    for entry_id in range(1, 501):
        link.execute(ENTRY, (entry_id,))
    rows = [(entry, line, "EUR", "wallet", 5 * line, 5 * (1 - line), 7) for entry in range(1, 501) for line in (0, 1)]
    rows[613] = (*rows[613][:4], 6, 0, 7)
    copy_postings(link, rows)
    with pytest.raises(psycopg.errors.CheckViolation, match=r"entry 307 .* 1 micro-units"):
        link.commit()


def test_two_entries_do_not_balance_each_other(link: Link) -> None:
    link.execute(ENTRY, (1,))
    link.execute(ENTRY, (2,))
    copy_postings(link, [(1, 0, "EUR", "wallet", 5, 0, 7), (2, 0, "EUR", "wallet", 0, 5, 7)])
    with pytest.raises(psycopg.errors.CheckViolation):
        link.commit()


def test_the_largest_amounts_do_not_overflow_the_sum(link: Link) -> None:
    most = 2**63 - 1
    link.execute(ENTRY, (1,))
    post(link, 1, ("EUR", most), ("EUR", most), ("EUR", -most), ("EUR", -most))
    link.commit()
    assert count(link, "postings") == 4


def test_a_committed_entry_takes_no_more_postings(link: Link) -> None:
    link.execute(ENTRY, (1,))
    post(link, 1, ("EUR", 10), ("EUR", -10))
    link.commit()
    with pytest.raises(psycopg.errors.CheckViolation, match="entry 1 takes no postings"):
        copy_postings(link, [(1, 8, "EUR", "wallet", 5, 0, 7), (1, 9, "EUR", "wallet", 0, 5, 7)])


def test_postings_without_their_entry_are_refused(link: Link) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="entry 1 takes no postings"):
        copy_postings(link, [(1, 0, "EUR", "wallet", 5, 0, 7), (1, 1, "EUR", "wallet", 0, 5, 7)])


def test_an_entry_added_within_a_savepoint_is_of_this_transaction(link: Link) -> None:
    """A row of a savepoint has another transaction id than the transaction; it is open all the same."""
    link.execute("SELECT 1")
    with link.transaction():
        link.execute(ENTRY, (1,))
    with link.transaction():
        post(link, 1, ("EUR", 10))
    post(link, 1, ("EUR", -10))
    link.commit()
    with pytest.raises(psycopg.errors.CheckViolation, match="entry 1 takes no postings"), link.transaction():
        post(link, 1, ("EUR", 10))


def test_a_savepoint_taken_back_leaves_no_trace(link: Link) -> None:
    link.execute(ENTRY, (1,))
    post(link, 1, ("EUR", 10))
    with link.transaction(force_rollback=True):
        post(link, 1, ("EUR", -10))
    with pytest.raises(psycopg.errors.CheckViolation, match="entry 1 does not balance"):
        link.commit()


@pytest.mark.parametrize(("debit", "credit"), [(0, 0), (5, 5), (-5, 0), (0, -5), (5, -5)])
def test_a_posting_has_one_side(link: Link, debit: int, credit: int) -> None:
    link.execute(ENTRY, (1,))
    with pytest.raises(psycopg.errors.CheckViolation, match="postings_one_side"):
        link.execute(POSTING, (1, 0, "EUR", debit, credit))


def test_the_check_stays_fast_when_its_plan_was_made_on_a_small_table(link: Link, database: Database) -> None:
    """A session keeps its plan: made on a small table, it once read the whole of entries for every batch."""
    link.execute(ENTRY, (1,))
    link.commit()
    with connect(database.dsn("superuser"), autocommit=True) as other:
        other.execute("VACUUM ANALYZE bursa.entries")  # now the planner knows how small it is
    link.execute(ENTRY, (2,))
    post(link, 2, ("EUR", 10), ("EUR", -10))
    link.execute("INSERT INTO bursa.entries SELECT n, 1, '', 1, 1, 0, 0, '' FROM generate_series(3, 20000) AS n")
    link.commit()
    link.execute(ENTRY, (30_000,))
    post(link, 30_000, ("EUR", 10), ("EUR", -10))
    query = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'entries'"
    assert link.execute(query).fetchall() == [(0,)]


if __name__ == "__main__":
    with run_postgres() as server, make_database(server) as made:
        SCHEMA.write_text(dump_schema(made.dsn("migrator")))
