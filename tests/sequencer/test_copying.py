"""Binary fields and arrays mean to PostgreSQL what they should."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq

from bursa.sequencer import copying
from bursa.sequencer.tables import CHANGES, COPIED, REBUILT, change_sql
from bursa.store import connect
from tests.postgres import Database

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
INTEGER = st.integers(-(2**31), 2**31 - 1)
SMALLINT = st.integers(-(2**15), 2**15 - 1)
BIGINT = st.integers(-(2**63), 2**63 - 1)


def test_fields_copy_as_the_values_they_are(database: Database) -> None:
    with connect(database.dsn("migrator"), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE probe (a bigint, b integer, c smallint, d text, e bytea, f boolean)")

        @settings(max_examples=40, deadline=None)
        @given(st.tuples(BIGINT, INTEGER, SMALLINT, TEXT, st.binary(), st.booleans()))
        def check(values: tuple[int, int, int, str, bytes, bool]) -> None:
            a, b, c, d, e, f = values
            fields = (
                copying.int8(a), copying.int4(b), copying.int2(c), copying.text(d), copying.raw(e), copying.boolean(f),
            )  # fmt: skip
            connection.execute("DELETE FROM probe")
            with connection.cursor().copy("COPY probe FROM STDIN (FORMAT binary)") as copy:
                copy.write(copying.stream([b"\0\6" + b"".join(fields)]))
            assert connection.execute("SELECT * FROM probe").fetchone() == values

        check()


def test_arrays_arrive_whole(database: Database) -> None:
    with connect(database.dsn("reader"), autocommit=True) as connection:
        for oid, fields, expected in (
            (copying.INT8_OID, [copying.int8(5), copying.int8(-1)], [5, -1]),
            (copying.TEXT_OID, [copying.text("ä"), copying.word("b")], ["ä", "b"]),
            (copying.BOOL_OID, [copying.boolean(True), copying.boolean(False)], [True, False]),
            (copying.BYTEA_OID, [copying.raw(b""), copying.raw(b"\0x")], [b"", b"\0x"]),
            (copying.INT4_OID, [], []),
        ):
            kind = {20: "bigint", 25: "text", 16: "boolean", 17: "bytea", 23: "integer"}[oid]
            sql = f"SELECT array_to_json($1::{kind}[])::text".encode()
            result = connection.pgconn.exec_params(sql, [copying.array(oid, fields)], None, [1], 0)
            assert result.status == pq.ExecStatus.TUPLES_OK, result.get_error_message()
            shown = [value if not isinstance(value, bytes) else "\\x" + value.hex() for value in expected]
            assert json.loads(result.get_value(0, 0) or b"") == shown


def test_tables_name_the_columns_that_the_database_has(database: Database) -> None:
    with connect(database.dsn("reader")) as connection:
        for table in {*COPIED, *REBUILT}:
            rows = connection.execute(
                "SELECT column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = 'bursa' AND table_name = %s",
                (table.name,),
            ).fetchall()
            assert set(rows) == set(table.columns), table.name


def test_every_change_is_a_statement_that_can_be_prepared(database: Database) -> None:
    with connect(database.dsn("app")) as connection:
        for change in CHANGES:
            result = connection.pgconn.prepare(change.name.encode(), change_sql(change, "bursa").encode())
            assert result.status == pq.ExecStatus.COMMAND_OK, (change.name, result.get_error_message())
