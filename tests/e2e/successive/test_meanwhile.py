"""Two connections at a time: whoever loses is told so in one line, writes nothing, and takes nothing away."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.release import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")

WITH = "WITH (quasi_identifiers = age, sensitive = charge, subject = id, k = 5, effort = 'fast')"
REFRESH, APPEND = "REFRESH ANONYMIZED VIEW v", "REFRESH ANONYMIZED VIEW v WITH (mode = 'append')"
MADE_ANEW = "DROP ANONYMIZED VIEW v; CREATE ANONYMIZED VIEW v AS FROM p " + WITH.replace("k = 5", "k = 6")

WORDS = (
    r"conflict: another connection writes releases to this database at the same time, so nothing was written: run .*",
    r"another connection made or dropped a release in home meanwhile, so nothing was written: run the statement again",
    r"home\.main\.[vw] is not an anonymized view; SHOW ANONYMIZED VIEWS lists them",
    r"home\.main\.[vw] exists: use CREATE OR REPLACE ANONYMIZED VIEW or REFRESH ANONYMIZED VIEW",
)
"""What a loser is told: the last two are true when the statement began."""


@pytest.fixture
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Connection]:
    """A view, and newcomers in its source."""
    with duckanon.connect(tmp_path_factory.mktemp("meanwhile") / "home.duckdb") as con:
        con.execute("CREATE TABLE p AS SELECT i AS id, i % 30 AS age, i % 5 AS charge FROM range(60) AS r(i)")
        con.sql(f"CREATE ANONYMIZED VIEW v AS FROM p {WITH}")
        con.execute("INSERT INTO p SELECT 1000 + i, 3, i FROM range(6) AS r(i)")
        yield con


def _meanwhile(monkeypatch: pytest.MonkeyPatch, con: duckanon.Connection, step: str, script: str) -> None:
    """Let another connection run a script before a step of the next statement."""
    real: Callable[..., object] = getattr(views, step)

    def disturbed(*given: object, **named: object) -> object:
        monkeypatch.setattr(views, step, real)
        with duckanon.Connection(con.duckdb.cursor()) as other:
            other.run_script(script)
        return real(*given, **named)

    monkeypatch.setattr(views, step, disturbed)


@pytest.mark.sampled
@pytest.mark.parametrize("step", ["kept", "compared", "publish"])
@pytest.mark.parametrize("script", [REFRESH, MADE_ANEW, "DROP ANONYMIZED VIEW v", APPEND])
def test_a_refresh_does_not_take_the_place_of_what_another_connection_made(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch, step: str, script: str
) -> None:
    """A view that was dropped and made anew has the number of the old one: it is another, with its own policy."""
    _meanwhile(monkeypatch, con, step, script)
    if step == "kept" and script in (REFRESH, APPEND):
        # What was made before the comparison is compared with.
        con.sql(REFRESH)
    else:
        with pytest.raises(ReleaseError, match=WORDS[1]):
            con.sql(REFRESH)
    there = con.duckdb.execute("SELECT policy FROM duckanon.releases").fetchall()
    assert len(there) == (0 if script.startswith("DROP ANONYMIZED VIEW v") and script != MADE_ANEW else 1)
    if script == MADE_ANEW:
        assert "k = 6" in there[0][0]


def test_an_audit_that_was_recorded_while_its_release_was_replaced_takes_nothing_away(
    con: duckanon.Connection,
) -> None:
    """Its rows are of a release that nothing stands for; what is kept of the view is that of its new release."""
    con.sql(REFRESH)
    con.execute("INSERT INTO duckanon.audits BY NAME SELECT 1 AS release_id, 'k_anonymity' AS measure")
    kept = con.duckdb.execute("SELECT release_id FROM duckanon.history ORDER BY ALL").fetchall()
    con.sql("SHOW ANONYMIZED VIEWS")
    assert kept == [(1,), (2,)]
    assert con.duckdb.execute("SELECT release_id FROM duckanon.history ORDER BY ALL").fetchall() == kept
    assert con.duckdb.execute("SELECT count(*) FROM duckanon.audits WHERE release_id = 1").fetchall() == [
        (0,)
    ]
    con.execute("INSERT INTO p SELECT 2000 + i, 3, i FROM range(6) AS r(i)")
    con.sql(APPEND)
    con.sql("DROP ANONYMIZED VIEW v")
    assert con.duckdb.execute("FROM duckanon.history").fetchall() == []
    left = con.duckdb.execute(
        "SELECT table_name FROM duckdb_tables() WHERE regexp_matches(table_name, '_[0-9]+$')"
    )
    assert left.fetchall() == []


@pytest.mark.slow
def test_each_loser_is_told_in_one_line_what_happened(con: duckanon.Connection) -> None:
    """Six connections; in the end what stands is whole."""
    said: set[str] = set()

    def work(*statements: str) -> None:
        with duckanon.Connection(con.duckdb.cursor()) as mine:
            for number in range(6):
                for statement in statements:
                    try:
                        mine.sql(statement.format(number=number))
                    except DuckanonError as failure:
                        said.add(str(failure))

    create = "CREATE OR REPLACE ANONYMIZED VIEW {} AS FROM p " + WITH
    scripts = [
        [REFRESH],
        [REFRESH, "SHOW ANONYMIZED VIEWS"],
        [APPEND, "INSERT INTO p SELECT 10000 + {number} * 10 + i, 7, 3 FROM range(6) AS r(i)"],
        ["DROP ANONYMIZED VIEW IF EXISTS w", create.format("w"), "AUDIT VIEW v"],
        [
            "SHOW ANONYMIZED VIEWS",
            "AUDIT VIEW w",
            "DROP ANONYMIZED VIEW w",
            create.format("w").replace("OR REPLACE ", ""),
        ],
        [create.format("v"), "DROP ANONYMIZED VIEW v"],
    ]
    threads = [threading.Thread(target=work, args=script) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text for text in said if not any(re.fullmatch(words, text) for words in WORDS)] == []
    con.sql(create.format("v"))
    con.execute("INSERT INTO p SELECT 90000 + i, 3, i FROM range(6) AS r(i)")
    con.sql(APPEND)
