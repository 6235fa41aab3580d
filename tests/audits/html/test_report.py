"""Text of users in the page: escaped, and broken where a reader would break it."""

from __future__ import annotations

from duckanon.audits.html.report import breakable


def test_a_name_breaks_behind_its_marks_and_is_escaped() -> None:
    assert str(breakable("marital_status <b>")) == "marital_<wbr>status &lt;b&gt;"
