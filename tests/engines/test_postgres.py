"""Every audit on PostgreSQL: the rows reckoned by hand, and those of DuckDB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from duckanon.audits.portable import audit_names
from tests.engines import agreement, postgres
from tests.engines.docs import blocks, lines, run_shell
from tests.engines.worlds import DOUBLES, EVEN_TEXT, WORLDS, job
from tests.trust.direct import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine() -> Iterator[postgres.Postgres]:
    programs = postgres.find()
    if programs is None:
        pytest.skip(postgres.MISSING)
    if os.geteuid() == 0 and postgres.other_user() is None:
        pytest.skip(postgres.NO_USER)
    with postgres.Postgres(programs) as running:
        yield running


@pytest.mark.parametrize("audit", CASES)
def test_rows_reckoned_by_hand(engine: postgres.Postgres, audit: str) -> None:
    agreement.assert_by_hand("postgres", engine, audit)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("audit", audit_names())
def test_rows_of_duckdb(engine: postgres.Postgres, audit: str, world: str) -> None:
    if WORLDS[world].text and audit in DOUBLES:
        world = "ties"
    agreement.assert_as_duckdb("postgres", engine, WORLDS[world], audit)


@pytest.mark.parametrize("distance", agreement.DISTANCES)
def test_a_class_at_t_passes_and_a_step_lower_fails(engine: postgres.Postgres, distance: str) -> None:
    agreement.assert_exact_at_t("postgres", engine, distance)


def test_wide_integers_are_exact(engine: postgres.Postgres) -> None:
    agreement.assert_wide_integers_are_exact("postgres", engine)


def test_classes_of_several_columns(engine: postgres.Postgres) -> None:
    agreement.assert_composite_keys("postgres", engine, "jsonb_build_array(age, sex)")


def test_odd_doubles(engine: postgres.Postgres) -> None:
    agreement.assert_odd_doubles("postgres", engine)


def test_what_is_rewritten_is_needed(engine: postgres.Postgres) -> None:
    assert "int128" in agreement.error_of_plain("postgres", engine, "class_metrics")
    wide = agreement.as_sqlglot_has_it("t_closeness_ordered", "postgres").replace("INT128", "DECIMAL")
    (answer,) = engine.ask([job(EVEN_TEXT, "t_closeness_ordered", "postgres", wide)])
    assert "unnest(bigint) does not exist" in (answer.error or "")


def test_the_example_of_the_page_runs(engine: postgres.Postgres, tmp_path: Path) -> None:
    run_shell(blocks("sh")[1], tmp_path)
    (script,) = blocks("sql")
    (shown,) = (text for text in blocks("text") if not text.startswith("+"))
    assert lines(engine.run(script, tmp_path)) == lines(shown)
