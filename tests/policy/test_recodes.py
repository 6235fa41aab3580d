"""The recode rules are a family: what one is stands in one entry and one file of SQL."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, cast, get_args

import pytest

import duckanon
from duckanon.database import templates
from duckanon.policy.kinds import NUMBERS, RULES, Recode, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST = """
{% macro gathered(field) %}
        max({{ field.column }}) AS largest_{{ field.column }},
{% endmacro %}
{% macro value(field) -%}
largest_{{ field.column }}
{%- endmacro %}
"""


@pytest.fixture
def own_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copy of the folder of SQL files, which is read in its place."""
    copy = shutil.copytree(templates.folder(), tmp_path / "sql")
    monkeypatch.setattr(templates, "folder", lambda: copy)
    templates._environment.cache_clear()
    yield copy
    templates._environment.cache_clear()


def test_every_rule_has_its_name_and_its_sql() -> None:
    files = {path.name for path in (templates.folder() / "recode" / "rule").iterdir()}
    assert tuple(RULES) == get_args(Recode)
    assert files == {f"{name}.sql.j2" for name in (*RULES, "swap")}


# Four records are few enough for warnings, which are not what this looks at.
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_new_rule_is_an_entry_and_a_file(own_sql: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_sql / "recode" / "rule" / "largest.sql.j2").write_text(LARGEST, encoding="utf-8")
    monkeypatch.setitem(RULES, "largest", Rule(cast("Recode", "largest"), NUMBERS))
    with duckanon.connect() as con:
        con.sql(
            "CREATE TABLE t AS FROM (VALUES (20, 'a'), (23, 'a'), (70, 'b'), (NULL, 'b')) AS v(age, town)"
        )
        options = "quasi_identifiers = (age, town), k = 2, recode = {age: 'largest'}"
        (made,) = con.outcomes(f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options})", effect=True)
        # By hand: two classes, each of one town; 20 becomes 23, 23 and 70 stay, NULL becomes 70: (3 + 0 + 0) / 3.
        assert con.sql("FROM v ORDER BY ALL").fetchall() == [(23, "a"), (23, "a"), (70, "b"), (70, "b")]
        (age, _) = made.effect
        assert (age.recode, age.changed_records, age.mean_change) == ("largest", 2, 1.0)
        with pytest.raises(duckanon.PolicyError, match="cannot be 'largest', which is for numbers"):
            con.sql(f"CREATE ANONYMIZED VIEW w AS FROM t WITH ({options.replace('{age', '{town')})")
