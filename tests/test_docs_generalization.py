"""The comparison on Adult in docs/methods/generalization.md: its measures by hand, its figures beside those of ARX."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT
from tests.reference import reference_file

if TYPE_CHECKING:
    from types import ModuleType

PAGE = (ROOT / "docs" / "methods" / "generalization.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| (k|k, t) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
FIGURES = {(asked, way): figures.split(" | ") for asked, way, figures in TABLE}

TOWNS = [
    ("Bonn", "Rhine", "Germany", "*"),
    ("Köln", "Rhine", "Germany", "*"),
    ("Ulm", "Danube", "Germany", "*"),
    ("Wien", "Vienna", "Austria", "*"),
    ("Graz", "Styria", "Austria", "*"),
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Load docs/generalization.py, which is no package."""
    spec = importlib.util.spec_from_file_location("generalization", ROOT / "docs" / "generalization.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    # A dataclass looks for the module that it stands in.
    sys.modules["generalization"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def test_a_label_loses_by_the_leaves_below_it(script: ModuleType) -> None:
    """By hand: of five leaves the Rhine has two, Germany three, Styria one."""
    towns = script.tree(TOWNS)
    assert towns.ancestor({"Bonn", "Köln"}) == "Rhine"
    assert towns.ancestor({"Bonn", "Ulm"}) == "Germany"
    assert towns.ancestor({"Graz"}) == "Graz"
    losses = {"Bonn": 0, "Rhine": 1 / 4, "Germany": 1 / 2, "Styria": 0, "*": 1}
    assert {label: towns.loss(label) for label in losses} == losses


def test_losses_are_those_of_records_and_a_suppressed_one_loses_all(script: ModuleType) -> None:
    """By hand: two lose 1/4, three 1, and one is in no class: (2/4 + 3 + 1) / 6; of 8 ages 4 - 2 of 9 - 1."""
    column = ["Bonn", "Köln", "Ulm", "Wien", "Graz", "Ulm"]
    classes = [[0, 1], [2, 3, 4]]
    assert script.averaged(column, classes, script.tree(TOWNS).loss_among) == 0.75
    texts = script.spread(set(column), ordered=False)
    assert [texts({"Ulm"}), texts({"Ulm", "Bonn"}), texts(set(column))] == [0, 1 / 4, 1]
    assert script.spread({"1", "9", "10", "2"}, ordered=True)({"2", "9", "10"}) == 8 / 9
    assert script.geometric([0.0, 1.0, 1.0]) == pytest.approx(4 ** (1 / 3) - 1)


def test_the_page_has_the_figures_of_arx() -> None:
    """ARX: score, NCP of the original values in its classes where it was taken, classes, suppressed records."""
    one_level, suppressing = "one level a column: `full_domain`", "`full_domain`, `suppression_limit = 0.02`"
    assert FIGURES["k", one_level][0] == "0.573"
    assert FIGURES["k", one_level][2:4] == ["24", "0"]
    assert FIGURES["k", suppressing][0] == "0.314"
    assert FIGURES["k", suppressing][2:4] == ["222", "506"]
    assert FIGURES["k, t", one_level][1:4] == ["92.8", "2", "0"]
    assert FIGURES["k, t", suppressing][:4] == ["0.815", "83.7", "6", "235"]


@pytest.mark.parametrize("asked", ["k", "k, t"])
def test_local_labels_lose_less_than_full_domain_and_local_recoding(asked: str) -> None:
    def figure(way: str, place: int) -> float:
        return float(FIGURES[asked, way][place])

    local, ways = "local labels: `auto`", [way for of, way in FIGURES if of == asked]
    optima = [way for way in ways if "full_domain" in way]
    assert len(optima) == 2
    for way in optima:
        assert figure(local, 0) < figure(way, 0)
        assert figure(local, 1) < figure(way, 1)
    assert figure(local, 1) < figure("ARX, local recoding", 1)


def test_the_section_is_put_before_mondrian_once(script: ModuleType) -> None:
    page = "# Head\n\n## `mondrian`\n"
    once = script.page(page, "## One\n")
    assert once == f"# Head\n\n{script.BEGIN}## One\n{script.END}\n## `mondrian`\n"
    assert script.page(once, "## Two\n") == once.replace("One", "Two")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("asked", ["K", "K_AND_T"])
def test_optima_are_measured_as_written(
    script: ModuleType, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the lines those that are the same on every machine; others may form other classes there."""
    monkeypatch.setattr(script, "FOLDER", reference_file("adult/adult.csv").parent)
    setting = getattr(script, asked)
    for way in (script.FULL_DOMAIN, script.SUPPRESSING):
        row = script.measured(setting, way, rounds=1)
        figures = script.line(row, row.seconds).strip("| ").split(" | ")
        assert figures[2:6] == FIGURES[setting.name, way.name][:4]
