"""The deFinetti attack: it finds what is there, and no more than chance where nothing is; releases of two forms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.measures.definetti import Held, by_counts, definetti
from tests.e2e.scenes import command
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

SIZE = 1200


def table(con: duckanon.Connection, noise: float) -> None:
    """Make persons whose illness is told by their town, but for a share of them who have any."""
    rng = np.random.default_rng(7)
    town, job = rng.integers(0, 6, SIZE), rng.integers(0, 5, SIZE)
    any_other = rng.random(SIZE) < noise
    ill = np.where(any_other, rng.integers(0, 6, SIZE), town)
    born = rng.permutation(SIZE)
    con.execute("CREATE OR REPLACE TABLE people (born INTEGER, town VARCHAR, job VARCHAR, ill VARCHAR)")
    rows = zip(born.tolist(), map(str, town), map(str, job), (f"ill {one}" for one in ill), strict=True)
    con.duckdb.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", list(rows))


def attacked(folder: Path, noise: float, form: str, how: str) -> dict[str, Any]:
    """Release the people and attack them by the command line; the line of the illness."""
    with duckanon.connect(folder / "people.duckdb") as con:
        table(con, noise)
        con.execute(
            "CREATE OR REPLACE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = (born, town, job), "
            f"sensitive = ill, release = '{form}', effort = 'fast', {how})"
        )
        (folder / "v.duckdb").unlink(missing_ok=True)
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{folder / 'v.duckdb'}'")
    done = command(
        "linkage", f"{folder / 'people.duckdb'}:people", f"{folder / 'v.duckdb'}:v", "--qi", "born,town,job",
        "--sensitive", "ill", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["form"], found["records"]) == (form, SIZE)
    (line,) = found["columns"]
    assert line["sensitive"] == "ill"
    return dict(line)


@pytest.mark.slow
@pytest.mark.parametrize("l", [2, 4])
def test_with_anatomy_more_than_one_in_l_is_found(tmp_path: Path, l: int) -> None:  # noqa: E741
    """Each town has one illness: that is learned, though no class says it. Without it nothing is."""
    told = attacked(tmp_path, 0.1, "anatomy", f"k = {l}, l = {l}")
    assert told["attacked"] == SIZE
    assert told["by_counts"] <= 1 / l
    assert told["right"] > 1 / l + 0.15
    chance = attacked(tmp_path, 1.0, "anatomy", f"k = {l}, l = {l}")
    assert chance["right"] < 1 / l + 0.08


@pytest.mark.slow
def test_values_dealt_anew_are_attacked_by_classes_too(tmp_path: Path) -> None:
    """Births are all different: everybody is in the one class in which his is."""
    told = attacked(tmp_path, 0.1, "swap", "k = 4, l = 2, l_diversity = 'recursive', c = 1.2")
    assert told["attacked"] == SIZE
    assert told["right"] > told["by_counts"] + 0.1


@pytest.mark.sampled
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "form",
    [
        "release = 'anatomy', k = 2, l = 2",
        "release = 'swap', k = 4, l = 2, l_diversity = 'recursive', c = 1.2",
    ],
)
def test_a_release_warns_where_the_classes_tell_more_than_their_counts(form: str) -> None:
    """Nine of ten persons have the illness of their town; with any illness for anybody there is nothing to say."""
    for noise, told in ((0.1, True), (1.0, False)):
        with duckanon.connect() as con:
            table(con, noise)
            (outcome,) = con.outcomes(
                "CREATE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = (born, town, job), sensitive = ill, "
                f"effort = 'fast', {form})"
            )
        assert outcome.report is not None
        found = [one for one in outcome.report.warnings if "a deFinetti attack finds it for" in one]
        assert bool(found) is told, outcome.report.warnings
        if told:
            assert found[0].startswith("'ill' goes with the quasi-identifiers, which are released exactly")


def test_what_has_no_classes_is_refused(tmp_path: Path) -> None:
    with duckanon.connect() as con:
        table(con, 0.5)
        con.execute(f"COPY people TO '{tmp_path / 'people.csv'}'")
    done = command(
        "linkage", tmp_path / "people.csv", tmp_path / "people.csv", "--qi", "town,job", "--sensitive", "ill"
    )
    assert done.returncode == 2
    assert (
        "has no column 'class_id': the deFinetti attack is on releases with exact quasi-identifiers"
        in done.stderr
    )


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_a_class_has_each_value_as_often_as_it_holds_it(data: st.DataObject) -> None:
    """Source: the counts of the classes themselves; values are those of the class, whatever is known."""
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    classes = np.repeat(np.arange(len(sizes)), sizes)
    values = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(classes), max_size=len(classes))))
    known = np.array(
        data.draw(
            st.lists(
                st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=len(classes), max_size=len(classes)
            )
        )
    )
    pairs, records = np.unique(np.stack([classes, values]), axis=1, return_counts=True)
    order = data.draw(st.permutations(range(len(classes))))
    found = definetti(classes[order], known[order], Held(pairs[0], pairs[1], records))
    back = np.empty_like(found)
    back[order] = found
    for number in range(len(sizes)):
        assert sorted(back[classes == number]) == sorted(values[classes == number])
    most = [max(np.bincount(values[classes == number])) for number in range(len(sizes))]
    assert by_counts(classes, Held(pairs[0], pairs[1], records)) == pytest.approx(sum(most) / len(classes))
