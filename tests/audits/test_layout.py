"""Lines of SQL: only the white space between words changes, and what belongs together stands together."""

from __future__ import annotations

import re

import pytest

from duckanon.audits import macros

QUERY = """
WITH one AS (SELECT a, b FROM t WHERE a = '-- no comment'), -- a comment
two AS (
    SELECT one.a, CASE WHEN one.b > 1 THEN 'a long text, so that this does not fit into one line' ELSE 'another text of the same length' END AS c
    FROM one CROSS JOIN other
)
SELECT count(*) AS records, (SELECT max(a) FROM two) AS top FROM two
UNION ALL
SELECT 1, 2
"""
LINES = """
WITH one AS (SELECT a, b FROM t WHERE a = '-- no comment'),
two AS (
    SELECT one.a, CASE
        WHEN one.b > 1 THEN 'a long text, so that this does not fit into one line'
        ELSE 'another text of the same length'
    END AS c
    FROM one CROSS JOIN other
)
SELECT count(*) AS records, (SELECT max(a) FROM two) AS top FROM two
UNION ALL
SELECT 1, 2
"""


def test_clauses_begin_lines_and_comments_go() -> None:
    assert macros.in_lines(QUERY) == LINES.strip()


@pytest.mark.parametrize("temporary", [True, False])
def test_no_word_of_a_macro_changes(temporary: bool) -> None:
    for statement in macros.macro_statements(temporary=temporary):
        lines = macros.in_lines(statement)
        without = re.sub(r"^ *--.*$", "", statement, flags=re.MULTILINE)
        assert re.sub(r"\s", "", lines) == re.sub(r"\s", "", without)
