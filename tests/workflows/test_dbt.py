"""The example project in dbt: releases are models, audits are tests, and errors are never passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pytest

from tests.oracle import class_emds, k_anonymity
from tests.workflows.dbt_project import EXAMPLE, Project, copied

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = ("patients_anon", "patients_table", "patients_python")
NAMES = ("age", "zip", "charge", "diagnosis")

BAD_MODELS = {
    # By hand: zip 1 has 2 records, zip 2 has 3, zip 3 has 1; charges 1, 2 | 1, 1, 3 | 2.
    "six": "select * from (values ('1', 1), ('1', 2), ('2', 1), ('2', 1), ('2', 3), ('3', 2)) as v(zip, charge)",
    "nobody": "select * from {{ ref('six') }} where zip = '4'",
    "taken": "{{ config(materialized='anonymized_view', policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }}",
    "too_much": "{{ config(materialized='anonymized_view', policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 7}) }} select * from {{ ref('six') }}",
    "no_policy": "{{ config(materialized='anonymized_view') }} select * from {{ ref('six') }}",
    "unknown": "{{ config(materialized='anonymized_view', policy={'quasi_identifier': ['zip'], 'k': 2}) }} select * from {{ ref('six') }}",
    "hooked": "{{ config(materialized='anonymized_view', pre_hook='create table log as select 1 as one', post_hook=\"insert into log from (select count(*) from {{ this }})\", policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }} -- the end",
    "promised": "{{ config(materialized='anonymized_view', contract={'enforced': true}, policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }}",
    "broken": "{{ config(materialized='anonymized_view', contract={'enforced': true}, policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }}",
    "no_contract": "{{ config(materialized='anonymized_view', contract={'enforced': true}, policy={'quasi_identifiers': ['zip'], 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }}",
    "span": "{{ config(materialized='anonymized_view', contract={'enforced': true}, policy={'quasi_identifiers': ['charge'], 'recode': {'charge': 'range'}, 'insensitive': '*', 'k': 2}) }} select * from {{ ref('six') }}",
}

BAD_TESTS = """
models:
  - name: promised
    columns: [{name: charge, data_type: integer}, {name: zip, data_type: varchar}]
  - name: broken
    columns: [{name: charge, data_type: varchar}, {name: zip, data_type: varchar}]
  - name: span
    columns: [{name: zip, data_type: varchar}, {name: charge, data_type: "struct(low integer, high integer)"}]
  - name: six
    columns:
      - name: charge
        data_tests:
          - duckanon.l_diversity: {name: column_l, arguments: {quasi_identifiers: zip, l: 2}}
    data_tests:
      - duckanon.k_anonymity: {name: k_two, arguments: {quasi_identifiers: [ZIP], k: 2}, config: {where: "zip <> '3'"}}
      - duckanon.k_anonymity: {name: k_three, arguments: {quasi_identifiers: zip, k: 3}, config: {store_failures: true}}
      - duckanon.k_anonymity: {name: only_one, arguments: {quasi_identifiers: zip, k: 3}, config: {where: "zip <> '1'"}}
      - duckanon.k_anonymity: {name: only_none, arguments: {quasi_identifiers: zip, k: 3}, config: {where: "zip = '''4'"}}
      - duckanon.k_anonymity: {name: misspelt, arguments: {quasi_identifiers: zpi, k: 3}}
      - duckanon.k_anonymity: {name: no_columns, arguments: {quasi_identifiers: [], k: 3}}
      - duckanon.k_anonymity: {name: no_k, arguments: {quasi_identifiers: zip, k: }}
      - duckanon.k_anonymity: {name: marked, arguments: {quasi_identifiers: zip, k: 2, suppressed: "3"}}
      - duckanon.t_closeness: {name: t_of_none, arguments: {quasi_identifiers: zip, t: 0.2}}
      - duckanon.t_closeness: {name: t_of_two, arguments: {quasi_identifiers: zip, sensitive: charge, t: 2}}
      - duckanon.t_closeness: {name: t_half, arguments: {quasi_identifiers: zip, sensitive: charge, t: {charge: 0.5}}}
  - name: nobody
    data_tests:
      - duckanon.k_anonymity: {name: empty, arguments: {quasi_identifiers: zip, k: 3}}
"""


class Clinic(NamedTuple):
    """The example after `dbt build`, and after a second run with models and tests that must fail."""

    project: Project
    built: dict[str, tuple[str, str, int | None]]
    broken: dict[str, tuple[str, str, int | None]]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """The second run replaces what the first one made."""
    project = copied(tmp_path_factory.mktemp("dbt") / "clinic")
    out = project.dbt("build", "--show-all-deprecations")
    assert "eprecat" not in out, out
    built = project.results
    for name, text in BAD_MODELS.items():
        (project.folder / "models" / f"{name}.sql").write_text(text, encoding="utf-8")
    (project.folder / "models" / "bad.yml").write_text(BAD_TESTS, encoding="utf-8")
    with duckdb.connect(project.folder / "clinic.duckdb") as con:
        con.execute("CREATE VIEW taken AS SELECT 'mine' AS whose")
    project.dbt("run", code=1)
    models = project.results
    project.dbt("test", code=1)
    return Clinic(project, built, models | project.results)


def records(project: Project, name: str) -> list[dict[str, object]]:
    """Rows of a release."""
    return [
        dict(zip(NAMES, row, strict=True))
        for row in project.rows(f"SELECT {', '.join(NAMES)} FROM {name} ORDER BY ALL")
    ]


@pytest.mark.slow
def test_everything_is_built_and_every_test_passes(clinic: Clinic) -> None:
    states = {name: result[0] for name, result in clinic.built.items()}
    assert set(states.values()) == {"success", "pass"}
    assert {*RELEASES, "charge_by_zip", "patients"} <= set(states)
    assert sum(state == "pass" for state in states.values()) == 10


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_keeps_its_policy(clinic: Clinic, name: str) -> None:
    """Judged by the oracle of the tests, not by the audits."""
    released = records(clinic.project, name)
    assert len(released) == 120
    assert k_anonymity(released, NAMES[:2]) >= 5
    assert max(class_emds(released, NAMES[:2], "charge", distance="ordered")) <= 0.2
    assert released == records(clinic.project, "patients_anon")
    columns = clinic.project.rows(f"SELECT column_name FROM (DESCRIBE {name})")
    assert [column for (column,) in columns] == list(NAMES)


@pytest.mark.slow
def test_the_view_has_its_metadata_and_nothing_is_left_of_the_first_run(clinic: Clinic) -> None:
    releases = clinic.project.rows("SELECT view_name, records FROM duckanon.releases ORDER BY ALL")
    assert releases == [("hooked", 6), ("patients_anon", 120), ("promised", 6), ("span", 6)]
    tables = clinic.project.rows(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE regexp_full_match(table_name, 'release_[0-9]+') OR table_name LIKE 'patients%'"
    )
    names = sorted(str(name) for (name,) in tables)
    assert names[:3] == ["patients", "patients_python", "patients_table"]
    assert len(names) == 3 + len(releases)
    comment = clinic.project.rows(
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'patients_anon' AND column_name = 'age'"
    )
    assert comment == [("Mean age of the class.",)]


@pytest.mark.slow
def test_violating_classes_are_counted_and_stored(clinic: Clinic) -> None:
    """By hand, see `BAD_MODELS`; t: the whole has charges 1, 2, 3 with 3/6, 2/6, 1/6."""
    results = clinic.broken
    assert results["k_two"][0] == results["marked"][0] == "pass"
    assert results["k_three"][::2] == ("fail", 2)
    assert results["only_one"][::2] == ("fail", 1)
    assert results["column_l"][::2] == ("fail", 1)
    # zip 3 holds the 2 only: (3/6 + 1/6) / 2 = 1/3; zip 1: (0 + 1/6) / 2; zip 2: (1/6 + 1/6) / 2; none above 1/2.
    assert results["t_half"][0] == "pass"
    stored = clinic.project.rows(
        "SELECT measure, class.zip, class_size, value FROM main_dbt_test__audit.k_three"
    )
    assert stored == [("k_anonymity", "3", 1, 1.0), ("k_anonymity", "1", 2, 2.0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", "the table is empty"),
        ("only_none", "the table is empty"),
        ("misspelt", "did you mean 'zip'"),
        ("no_columns", "at least one quasi-identifier"),
        ("no_k", "k is NULL"),
        ("t_of_none", "write sensitive := [...]"),
        ("t_of_two", "above 0 and at most 1"),
        ("taken", "duckanon did not make and does not replace"),
        ("too_much", "k = 7"),
        ("no_policy", "the model has no policy"),
        ("unknown", "unknown option 'quasi_identifier'"),
        ("broken", "This model has an enforced contract that failed."),
        ("broken", "| charge      | INTEGER         | VARCHAR       | data type mismatch |"),
        ("no_contract", "'columns' specification is missing"),
    ],
)
def test_what_is_wrong_is_an_error_and_says_what(clinic: Clinic, name: str, words: str) -> None:
    status, message, failures = clinic.broken[name]
    assert status == "error"
    assert failures is None
    assert words in message
    assert "Traceback" not in message


@pytest.mark.slow
def test_a_failing_model_changes_nothing(clinic: Clinic) -> None:
    views = clinic.project.rows("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL")
    assert [name for (name,) in views] == [
        "charge_by_zip",
        "hooked",
        "nobody",
        "patients_anon",
        "promised",
        "six",
        "span",
        "taken",
    ]
    assert clinic.project.rows("FROM taken") == [("mine",)]


@pytest.mark.slow
def test_dbt_does_not_show_or_empty_what_is_not_released(clinic: Clinic) -> None:
    shown = clinic.project.dbt("show", "--select", "patients_anon", code=2)
    assert "dbt show would print rows of the source of 'patients_anon'" in shown
    assert not any(diagnosis in shown for diagnosis in ("asthma", "diabetes"))
    inline = clinic.project.dbt(
        "show", "--inline", "select * from {{ ref('patients_anon') }}", "--limit", "1"
    )
    assert "| age | zip" in inline
    before = clinic.project.rows("SELECT max(release_id) FROM duckanon.releases")
    assert "--empty leaves no rows to release" in clinic.project.dbt(
        "run", "--empty", "--select", "patients_anon", code=1
    )
    assert clinic.project.rows("SELECT max(release_id) FROM duckanon.releases") == before


@pytest.mark.slow
def test_a_run_keeps_the_columns_of_a_view(clinic: Clinic) -> None:
    """`promised` has insensitive: '*', and no contract now."""
    project = clinic.project
    model = project.folder / "models" / "promised.sql"
    model.write_text(BAD_MODELS["promised"].replace("contract={'enforced': true}, ", ""), encoding="utf-8")
    six = project.folder / "models" / "six.sql"
    six.write_text(BAD_MODELS["six"].replace("select *", "select *, 1 as income"), encoding="utf-8")
    project.dbt("run", "--select", "six promised", code=1)
    status, message, _ = project.results["promised"]
    assert status == "error"
    assert (
        "'income' is new; nothing was released. Name a new column in the policy, or run dbt with" in message
    )
    columns = "SELECT column_name FROM (DESCRIBE promised)"
    assert project.rows(columns) == [("zip",), ("charge",)]
    project.dbt("run", "--full-refresh", "--select", "promised")
    assert project.rows(columns) == [("zip",), ("charge",), ("income",)]


@pytest.mark.slow
def test_models_of_several_threads_take_turns(clinic: Clinic) -> None:
    project = clinic.project
    names = [f"turn_{number}" for number in range(6)]
    for name in names:
        text = BAD_MODELS["hooked"].replace("create table log", f"create table log_{name}")
        (project.folder / "models" / f"{name}.sql").write_text(
            text.replace("insert into log ", f"insert into log_{name} "), encoding="utf-8"
        )
    out = project.dbt("run", "--threads", "6", "--select", *names)
    assert "Traceback" not in out
    for name in names:
        assert project.results[name][0] == "success"
        assert project.rows(f"FROM log_{name}") == [(1,), (6,)]


@pytest.mark.slow
def test_hooks_run_before_and_after_the_release(clinic: Clinic) -> None:
    assert clinic.project.rows("FROM log") == [(1,), (6,)]


def test_the_example_is_as_the_docs_say(tmp_path: Path) -> None:
    """No dbt needed: every model of the README is there, and nothing that a run leaves."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for path in (EXAMPLE / "models").iterdir():
        assert path.stem == "schema" or f"`{path.stem}`" in text
