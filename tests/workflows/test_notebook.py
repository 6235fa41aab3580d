"""Report and Release in a notebook: every value escaped, verdicts in words, well-formed HTML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import duckanon
from duckanon.audits.report import Measure, Report, Violation
from tests.e2e.scenes import patients


def tree(text: str) -> ET.Element:
    """Parsed HTML; ours is well-formed XML."""
    return ET.fromstring(f"<body>{text}</body>")


def cells(text: str) -> list[list[str]]:
    """Text of all table rows."""
    return [["".join(cell.itertext()) for cell in row] for row in tree(text).iter("tr")]


def report(passed: bool | None = False, name: str = "people", violations: int = 1) -> Report:
    """A report of one measure."""
    measure = Measure("k_anonymity", "<b>&", 3, 2.5, 7, 1, 2, passed)
    broken = Violation("k_anonymity", None, {"<i>": "</table>", "zip": None}, 2, 2.0)
    return Report(name, (measure,), (broken,) * violations, ("<script>alert(1)</script>",), "mdav & more")


def test_every_value_is_escaped() -> None:
    text = report(name='<img src="x">')._repr_html_()
    assert not re.search(r"<(script|img|b|i)\b", text)
    table = cells(text)
    assert table[1] == ["k_anonymity", "<b>&", "3", "2.5", "7", "1", "2", "violated"]
    assert table[3] == ["k_anonymity", "", "<i> = </table>, zip = NULL", "2", "2"]
    assert "<script>alert(1)</script>" in "".join(tree(text).itertext())


def test_the_verdict_is_a_word_and_a_colour() -> None:
    for passed, word in ((True, "passed"), (False, "violated"), (None, "not judged")):
        text = report(passed)._repr_html_()
        spans = [(span.get("class"), span.text) for span in tree(text).iter("span")]
        assert spans == [({"not judged": "unjudged"}.get(word, word), word)] * 2


def test_a_long_list_of_violations_is_cut_and_that_is_said() -> None:
    text = report(violations=30)._repr_html_()
    assert "the worst 10 of those listed" in text
    assert len(cells(text)) == 2 + 11
    assert "the worst" not in report(violations=10)._repr_html_()


def test_text_takes_the_colour_of_the_page() -> None:
    """So it reads on light and dark: only what has a background of its own sets the colour of its text."""
    style = next(tree(report()._repr_html_()).iter("style")).text or ""
    for rule in style.split("}"):
        if "color:#fff" in rule:
            assert "passed" in rule
            assert "violated" in rule
        else:
            assert not re.search(r"[{;]color:", rule)


def test_a_release_shows_its_figures_and_its_report() -> None:
    with patients() as con:
        policy = duckanon.Policy(
            identifiers="id", quasi_identifiers=["age", "zip"], sensitive=["charge", "diagnosis"], k=3
        )
        release = duckanon.anonymize(con, "patients", policy, name='"<v>"')
    text = release._repr_html_()
    assert f"60 records in {release.classes} classes, 0 suppressed" in text
    assert "<v>" not in text
    assert ["k_anonymity", "", "3", "3", str(release.classes), "0", "0", "passed"] in cells(text)
