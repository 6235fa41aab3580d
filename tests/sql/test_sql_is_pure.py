"""The files of sql/audit are what they claim: one plain SELECT each, over the contract relations alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import sqlglot
from sqlglot import exp

from duckanon.database import templates

if TYPE_CHECKING:
    from pathlib import Path

AUDITS = templates.folder() / "audit"
FILES = sorted([*AUDITS.glob("*.sql"), *(AUDITS / "fast").glob("*.sql")])
OWN = sorted((AUDITS / "fast").glob("*/*.sql"))
"""Texts in place of that of all, for one engine or tables of few values: longer, for they go another way."""
RELATIONS = {
    "class_member", "tree", "threshold", "class_size", "subset_class", "class_diversity",
    "class_recursion", "class_emd", "verdict",
    "class_superset", "class_superset_emd", "class_journalist", "population", "original", "released",
    "class_subject", "release_record", "release_value", "class_number", "class_change", "value_change",
    "class_common", "sum_change", "told", "release_verdict",
    "contribution", "value_share", "joint_place", "joint_kind", "joint_scale", "joint_pair", "joint_flow", "joint_potential",
    "joint_distance", "joint_upper", "joint_lower", "class_joint_emd", "class_rank", "superset_bound",
}  # fmt: skip
FUNCTIONS = {
    "abs", "coalesce", "count", "dense_rank", "exp", "floor", "generate_series", "greatest", "lag", "least", "list", "ln",
    "map_from_entries", "max", "min", "nullif", "row_number", "sqrt", "sum", "unnest",
}  # fmt: skip
HEADER = ["audit", "question", "reads", "returns", "violation", "source"]
OWN_FUNCTIONS = {"hash"}
each_file = pytest.mark.parametrize("path", FILES + OWN, ids=lambda path: str(path.relative_to(AUDITS)))


def test_all_audits_are_there() -> None:
    """The audits that users are promised: definitions, not bindings."""
    promised = (
        "class_sizes k_anonymity l_diversity t_closeness_ordered t_closeness_equal t_closeness_hierarchical"
    )
    assert {*promised.split(), "reidentification_risk", "class_metrics", "similarity"} <= {
        p.stem for p in FILES
    }


@each_file
def test_header_is_complete_and_the_file_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    keys = [found[1] for line in lines if (found := re.match(r"-- (\w+): \S", line))]
    assert [key for key in keys if key != "formula"] == HEADER
    assert lines[0] == f"-- audit: {path.stem}"
    assert len(lines) <= (120 if path in OWN else 60)
    assert max(map(len, lines)) <= 110


@each_file
def test_it_is_one_select_over_the_contract_relations(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (query,) = sqlglot.parse(text, read="duckdb")
    assert isinstance(query, exp.Query)
    ours = {cte.alias for cte in query.find_all(exp.CTE)}
    read = {table.name for table in query.find_all(exp.Table)} - ours
    assert read
    assert read <= RELATIONS
    header = text.split("-- returns:")[0].split("-- reads:")[1]
    assert all(name in header for name in read), "the header names what is read"


@each_file
def test_it_holds_nothing_that_another_engine_or_version_lacks(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    code = "\n".join(line.partition("--")[0] for line in text.splitlines())
    assert not re.search(r"\{[{%#]", text), "a template"
    assert "lambda" not in code
    assert "->" not in code
    query = sqlglot.parse_one(text, read="duckdb")
    assert all(isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)), (
        "a star outside count(*)"
    )
    calls = set(re.findall(r"\b([a-z_]+)\(", code))
    known = FUNCTIONS | OWN_FUNCTIONS if path in OWN else FUNCTIONS
    assert calls <= known, f"not on the list: {calls - known}"


@each_file
def test_every_order_says_where_null_stands_or_is_of_a_number(path: Path) -> None:
    code = "\n".join(line.partition("--")[0] for line in path.read_text(encoding="utf-8").splitlines())
    for order in re.findall(r"ORDER BY ([^()]*)", code):
        if re.match(r"value\b", order):
            assert "NULLS LAST" in order


@each_file
def test_keywords_are_upper_case_and_names_lower_case(path: Path) -> None:
    code = "\n".join(line.partition("--")[0] for line in path.read_text(encoding="utf-8").splitlines())
    assert not re.search(
        r"\b(select|from|join|where|group by|order by|over|partition by|as|case|when)\b", code
    )
