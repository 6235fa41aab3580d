"""The error of a table function on our connection is the error itself, with its class, not a text inside another one."""

from __future__ import annotations

import threading

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, InfeasibleError, PolicyError, SourceError

ROWS = "CREATE TABLE p AS SELECT i % 9 AS age, i % 2 AS ill FROM range(90) AS r(i)"
TOO_MUCH = "FROM anonymize('p', quasi_identifiers := ['age'], sensitive := ['ill'], k := 3, l := 3)"
RIGHT = "FROM anonymize('p', quasi_identifiers := ['age'], sensitive := ['ill'], k := 3)"
WRONG_NAME = "FROM equivalence_classes('p', quasi_identifiers := ['agee'], k := 3)"
NO_TABLE = "FROM anonymize('nowhere', quasi_identifiers := ['age'], k := 3)"
CALLS = {TOO_MUCH: InfeasibleError, WRONG_NAME: PolicyError, NO_TABLE: SourceError}


@pytest.mark.parametrize("call", CALLS)
def test_the_error_has_its_class_and_its_message_alone(call: str) -> None:
    with duckanon.connect() as con:
        con.execute(ROWS)
        for run in (con.sql, con.execute, con.run_script):
            with pytest.raises(CALLS[call]) as failed:
                run(call)
            assert "executing the UDF" not in str(failed.value)
            assert isinstance(failed.value.__cause__, duckdb.InvalidInputException)
        with pytest.raises(CALLS[call], match=r"\(line 2, column 1\)"):
            con.sql(f"SELECT 1;\nCREATE TABLE other AS {call};\nSELECT 3")
        with pytest.raises(duckdb.CatalogException):
            con.duckdb.execute("FROM other")


def test_an_error_of_duckdb_is_never_replaced_by_an_old_one() -> None:
    with duckanon.connect() as con:
        con.execute(ROWS)
        for other, kind in (
            ("FROM nothing", duckdb.CatalogException),
            ("SELECT 'a'::INTEGER", duckdb.ConversionException),
            (f"{RIGHT} WHERE error('mine') IS NULL", duckdb.InvalidInputException),
        ):
            with pytest.raises(InfeasibleError):
                con.execute(TOO_MUCH)
            with pytest.raises(kind):
                con.execute(other)
        assert len(con.execute(RIGHT).fetchall()) == 90


def test_a_plain_connection_keeps_duckdbs_class() -> None:
    with duckanon.connect() as con:
        con.execute(ROWS)
        duckanon.register(con.duckdb)
        with pytest.raises(duckdb.InvalidInputException, match="InfeasibleError"):
            con.duckdb.execute(TOO_MUCH)


def test_an_error_in_an_aborted_transaction_leaves_the_transaction_to_its_owner() -> None:
    with duckanon.connect() as con:
        con.execute(ROWS)
        con.execute(RIGHT)
        con.execute("BEGIN")
        with pytest.raises(InfeasibleError):
            con.execute(TOO_MUCH)
        con.execute("ROLLBACK")
        assert len(con.execute(RIGHT).fetchall()) == 90


def test_a_thread_gets_its_own_error() -> None:
    """Both connections fail at the same time, each in its own way."""
    found: dict[str, list[type[BaseException]]] = {TOO_MUCH: [], WRONG_NAME: []}
    ready = threading.Barrier(2)

    def fail(call: str) -> None:
        with duckanon.connect() as con:
            con.execute(ROWS)
            for _ in range(5):
                ready.wait(timeout=60)
                try:
                    con.execute(call)
                except (DuckanonError, duckdb.Error) as failed:
                    found[call].append(type(failed))

    threads = [threading.Thread(target=fail, args=(call,)) for call in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {call: [CALLS[call]] * 5 for call in found}
