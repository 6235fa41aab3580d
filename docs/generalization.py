"""Write a comparison on Adult into docs/methods/generalization.md: ``python docs/generalization.py``.

It takes some minutes. The data, with the hierarchies of ARX, lie in the folder that ``DUCKANON_REFERENCE``
names.
"""

from __future__ import annotations

import csv
import os
import platform
import statistics
import warnings
from collections import Counter
from dataclasses import dataclass
from math import expm1, fsum, log1p
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np

import duckanon
from duckanon.release.unpublished import equivalence_classes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "methods" / "generalization.md"
BEGIN, END = "<!-- adult: written by docs/generalization.py -->\n", "<!-- end of adult -->\n"
BEFORE = "## `mondrian`\n"
FOLDER = Path(os.environ.get("DUCKANON_REFERENCE") or ROOT.parent / "shared" / "data") / "adult"
ROUNDS = 3

COLUMNS = (
    "sex",
    "age",
    "race",
    "marital-status",
    "education",
    "native-country",
    "workclass",
    "occupation",
    "salary-class",
)
"""In the order of the file."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What is asked: its name in the table, the quasi-identifiers, and the other options of a policy."""

    name: str
    quasi_identifiers: tuple[str, ...]
    options: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Way:
    """A way to release: its name in the table, options, rules of recoding, whether hierarchies are given."""

    name: str
    options: dict[str, Any]
    recode: dict[str, Any]
    hierarchies: bool


class Release(NamedTuple):
    """The source by column, with the class of each record, the released view by column, CPU seconds."""

    source: dict[str, list[Any]]
    released: dict[str, list[Any]]
    seconds: float


class Row(NamedTuple):
    """A line of the table; losses and seconds are None where nobody measured them."""

    setting: str
    way: str
    label_loss: float | None
    ncp: float
    classes: int
    suppressed: int
    seconds: float | None


K = Setting("k", COLUMNS, {"k": 5})
K_AND_T = Setting(
    "k, t",
    tuple(column for column in COLUMNS if column != "occupation"),
    {"k": 5, "sensitive": "occupation", "t": 0.2, "distance": {"occupation": "equal"}},
)

SETS = {column: "range" if column == "age" else "set" for column in COLUMNS}
LABELS = dict.fromkeys(COLUMNS, "hierarchy")

MEANS = Way("means and modes: `auto`", {}, {}, hierarchies=False)
RANGES = Way("ranges and sets: `auto`", {}, SETS, hierarchies=False)
MONDRIAN = Way("ranges and sets: `mondrian`", {"method": "mondrian"}, SETS, hierarchies=False)
FULL_DOMAIN = Way("one level a column: `full_domain`", {"method": "full_domain"}, {}, hierarchies=True)
SUPPRESSING = Way(
    "`full_domain`, `suppression_limit = 0.02`",
    {"method": "full_domain", "suppression_limit": 0.02},
    {},
    hierarchies=True,
)
LOCAL = Way("local labels: `auto`", {}, LABELS, hierarchies=True)
LOCAL_MONDRIAN = Way("local labels: `mondrian`", {"method": "mondrian"}, LABELS, hierarchies=True)
SUPPRESSING_MONDRIAN = Way(
    "local labels: `mondrian`, `suppression_limit = 0.02`",
    {"method": "mondrian", "suppression_limit": 0.02},
    LABELS,
    hierarchies=True,
)
WAYS = (MEANS, RANGES, MONDRIAN, FULL_DOMAIN, SUPPRESSING, LOCAL, LOCAL_MONDRIAN, SUPPRESSING_MONDRIAN)

ARX_NAME = "ARX, local recoding"
ARX = (Row("k", ARX_NAME, None, 4.73, 4083, 0, None), Row("k, t", ARX_NAME, None, 45.2, 90, 4298, None))
"""Measured once with ARX itself, as NCP of the original values in its classes; not by this script."""


TEXT = """\
## Compared on Adult

The 30,162 records of Adult, with the hierarchies of ARX, released in eight ways under the same thresholds:
`k` is k = 5 with all nine columns as quasi-identifiers; `k, t` is k = 5 and t = 0.2 for the occupation
(distance `'equal'`), with the eight other columns as quasi-identifiers. *Means and modes* are what `auto`
releases where nothing else is asked. *Ranges and sets* show the range of the ages and the set of the texts in
a class. With *local labels*, `recode = {{...: 'hierarchy'}}` for every quasi-identifier, a class shows the
lowest label that is above all its values. These and `full_domain` were given the hierarchies.

Two measures say how different the records are that a release no longer tells apart: those of a class, that
is, with equal released quasi-identifiers. A suppressed record counts 1, in every column.

- **Label loss** is what `full_domain` makes smallest: leaves below the released label but one, over all
  leaves but one, averaged over the records; over the columns the geometric mean of 1 + x, minus 1. A class
  that is not released by labels is judged by those that it would have as local labels.
- **NCP** (normalized certainty penalty) takes the original values of a class, and no hierarchy: of age
  their range over that of the table; of text the number of different values but one, over the same of the
  table. It is the mean over records and columns.

{table}

CPU seconds are those of `anonymize`, from the table in memory to the audited view, the median of {rounds},
without compilation, on this machine: {machine}.
`python docs/generalization.py` measures every line anew but those of ARX: they are of one run of ARX itself.

- **Local labels** of `auto` lose less than the best full-domain release (label loss {k_local} beside {k_full}
  with k alone, {t_local} beside {t_full} with t), and have less NCP than the local recoding of ARX. Take them
  where every released cell has to be true of its record, and readers know the labels. A column then shows
  labels of several levels.
- **Ranges and sets** of `auto` are as true, and need no hierarchy. With k alone their label loss is greater
  ({k_sets}); with t they lose less than local labels by both measures (label loss {t_sets}): there the
  distances of the hierarchies do not help the partition. A set of many values is hard to read.
- **Means and modes** are to compute with: a number stays a number, a text one text. Classes for which they
  are equal become one class, so that they lose more than ranges and sets.
- **`full_domain`** loses most. Take it where a column must have the same level in all records, so that they
  can be counted by it, or where a result has to be compared with ARX or Incognito. Suppression helps: with up
  to 2 % of the records the label loss falls to {k_suppressing} with k alone, to {t_suppressing} with t.
- **`mondrian`** with hierarchies and k alone loses about as much as `auto` with them, and takes {k_times}
  times less CPU time; with t it loses more (label loss {t_mondrian}), since a part stays whole where no cut
  leaves both sides close. With up to 2 % of the records suppressed it is {t_mondrian_suppressing}, and
  {k_mondrian_suppressing} with k alone.
"""


class Tree(NamedTuple):
    """The labels of each leaf from itself to the root, and how many leaves are below each label."""

    paths: dict[str, tuple[str, ...]]
    below: Counter[str]

    def ancestor(self, values: Collection[str]) -> str:
        """Label of the lowest node that has all the values below it."""
        levels = (set(labels) for labels in zip(*(self.paths[value] for value in values), strict=True))
        label: str = next(labels.pop() for labels in levels if len(labels) == 1)
        return label

    def loss(self, label: str) -> float:
        """Leaves below the label but one, over all leaves but one."""
        return (self.below[label] - 1) / (len(self.paths) - 1)

    def loss_among(self, values: Collection[str]) -> float:
        """Loss of the label that a class with these values has."""
        return self.loss(self.ancestor(values))


def tree(rows: Iterable[Sequence[str]]) -> Tree:
    """Read a hierarchy, a row for each leaf up to the root; in Adult no label stands for two nodes."""
    paths = {row[0]: tuple(row) for row in rows}
    return Tree(paths, Counter(label for path in paths.values() for label in set(path)))


def spread(domain: Collection[str], *, ordered: bool) -> Callable[[Collection[str]], float]:
    """Give what NCP counts for the values of a class in one column: their width over that of all values.

    Of numbers the width is the greatest minus the least, else how many differ, but one.
    """

    def width(values: Collection[str]) -> float:
        if not ordered:
            return len(set(values)) - 1
        numbers = [float(value) for value in values]
        return max(numbers) - min(numbers)

    whole = width(domain)
    return lambda values: width(values) / whole


def averaged(
    column: Sequence[str], classes: Iterable[Sequence[int]], one: Callable[[Collection[str]], float]
) -> float:
    """Average the loss of classes over all records; who is in no class is suppressed, and counts 1."""
    lost = [(len(records), one({column[record] for record in records})) for records in classes]
    suppressed = len(column) - sum(size for size, _ in lost)
    return (suppressed + fsum(size * loss for size, loss in lost)) / len(column)


def geometric(losses: Sequence[float]) -> float:
    """Give the mean of ARX: the geometric one of 1 + x, minus 1."""
    return expm1(statistics.fmean(log1p(loss) for loss in losses))


def hierarchy(column: str) -> Path:
    """Return the file with the hierarchy of a column."""
    return FOLDER / f"hierarchy_{column}.csv"


def policy(setting: Setting, way: Way) -> duckanon.Policy:
    """Give the policy of a line of the table, with the hierarchies of all quasi-identifiers or of none."""
    quasi = setting.quasi_identifiers
    return duckanon.Policy(
        quasi_identifiers=quasi,
        recode={column: how for column, how in way.recode.items() if column in quasi},
        hierarchies={column: str(hierarchy(column)) for column in quasi if way.hierarchies},
        **setting.options,
        **way.options,
    )


def released(setting: Setting, way: Way, *, rounds: int) -> Release:
    """Release Adult some rounds, for the median of the CPU seconds.

    Another release comes before them: it finds the classes, and loads the kernels.
    """
    asked = policy(setting, way)
    with duckanon.connect() as con:
        con.duckdb.execute(
            "CREATE TABLE adult AS FROM read_csv(?, delim = ';', header = true)", [str(FOLDER / "adult.csv")]
        )
        source: Any = equivalence_classes(con.duckdb, "FROM adult", asked).table
        seconds = []
        for _ in range(rounds):
            start = process_time()
            duckanon.anonymize(con, "adult", asked, name="released", or_replace=True)
            seconds.append(process_time() - start)
        rows: Any = con.duckdb.sql("FROM released").to_arrow_table()
    return Release(source.to_pydict(), rows.to_pydict(), statistics.median(seconds))


def measured(setting: Setting, way: Way, *, rounds: int = ROUNDS) -> Row:
    """Release Adult, and judge the release."""
    release = released(setting, way, rounds=rounds)
    members: dict[int | None, list[int]] = {}
    for record, label in enumerate(release.source["class_id"]):
        members.setdefault(label, []).append(record)
    suppressed = len(members.pop(None, []))
    classes = list(members.values())
    ncp, labels = [], []
    for column in setting.quasi_identifiers:
        values = list(map(str, release.source[column]))
        ncp.append(averaged(values, classes, spread(set(values), ordered=column == "age")))
        with hierarchy(column).open(encoding="utf-8", newline="") as file:
            above = tree(csv.reader(file, delimiter=";"))
        if way.hierarchies:
            shown = Counter(release.released[column])
            lost = fsum(records * above.loss(label) for label, records in shown.items())
            labels.append((suppressed + lost) / len(values))
        else:
            labels.append(averaged(values, classes, above.loss_among))
    ncp_percent = 100 * statistics.fmean(ncp)
    return Row(
        setting.name, way.name, geometric(labels), ncp_percent, len(classes), suppressed, release.seconds
    )


def rounded(seconds: float) -> str:
    """Give seconds to two digits, from 0.1 on."""
    return f"{seconds:.{1 if seconds < 9.95 else 0}f}"


def line(row: Row, fastest: float) -> str:
    """Give a line of the table; `fastest` are the least CPU seconds in the same setting."""
    cells = [
        row.setting,
        row.way,
        "-" if row.label_loss is None else f"{row.label_loss:.3f}",
        f"{row.ncp:.1f}",
        f"{row.classes:,}",
        f"{row.suppressed:,}",
        *(["-", "-"] if row.seconds is None else [rounded(row.seconds), f"{row.seconds / fastest:.1f}"]),
    ]
    return f"| {' | '.join(cells)} |"


def table(rows: Sequence[Row]) -> str:
    """Give the table, ARX last in each setting."""
    lines = [
        "| asked | released | label loss | NCP % | classes | suppressed | CPU s | times the fastest |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for arx in ARX:
        ours = [row for row in rows if row.setting == arx.setting]
        fastest = min(row.seconds for row in ours if row.seconds is not None)
        lines += [line(row, fastest) for row in (*ours, arx)]
    return "\n".join(lines)


def claims(found: dict[tuple[Setting, Way], Row]) -> dict[str, bool]:
    """Say which statements of the text, beside its figures, hold."""

    def less(setting: Setting, way: Way, other: Way) -> bool:
        return _loss(found[setting, way]) < _loss(found[setting, other])

    both = (K, K_AND_T)
    optima = (FULL_DOMAIN, SUPPRESSING)
    return {
        "full domain loses most": all(
            less(each, way, optimum) and found[each, way].ncp < found[each, optimum].ncp
            for each in both
            for way in WAYS
            for optimum in optima
            if way not in optima
        ),
        "local labels have less NCP than ARX's": all(
            found[each, LOCAL].ncp < arx.ncp for each, arx in zip(both, ARX, strict=True)
        ),
        "with k alone local labels of auto have the least label loss of what releases all": all(
            less(K, LOCAL, way) for way in WAYS if way not in (LOCAL, SUPPRESSING_MONDRIAN)
        ),
        "with t ranges and sets of auto lose less than local labels by both measures": less(
            K_AND_T, RANGES, LOCAL
        )
        and found[K_AND_T, RANGES].ncp < found[K_AND_T, LOCAL].ncp,
        "means and modes lose more than ranges and sets": all(
            less(each, RANGES, MEANS) and found[each, RANGES].ncp < found[each, MEANS].ncp for each in both
        ),
        "with t Mondrian's labels lose more": less(K_AND_T, LOCAL, LOCAL_MONDRIAN),
        "suppression lessens the loss of Mondrian's labels": all(
            less(each, SUPPRESSING_MONDRIAN, LOCAL_MONDRIAN) for each in both
        ),
        "with k alone Mondrian's labels lose about as much as those of auto": _loss(found[K, LOCAL_MONDRIAN])
        < 1.02 * _loss(found[K, LOCAL]),
    }


def section(rows: Sequence[Row]) -> str:
    """Give the section; where its text is not true, that is an error."""
    found = {
        (setting, way): next(row for row in rows if (row.setting, row.way) == (setting.name, way.name))
        for setting in (K, K_AND_T)
        for way in WAYS
    }
    wrong = [claim for claim, holds in claims(found).items() if not holds]
    if wrong:
        raise SystemExit(
            f"nothing written, for the text would not be true: {'; '.join(wrong)}\n{table(rows)}"
        )

    def loss(setting: Setting, way: Way) -> str:
        return f"{_loss(found[setting, way]):.3f}"

    def times(setting: Setting) -> str:
        return f"{(found[setting, LOCAL].seconds or 0) / (found[setting, LOCAL_MONDRIAN].seconds or 1):.0f}"

    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, duckdb {duckdb.__version__}"
    )
    return TEXT.format(
        table=table(rows),
        machine=machine,
        rounds=ROUNDS,
        k_local=loss(K, LOCAL),
        t_local=loss(K_AND_T, LOCAL),
        k_full=loss(K, FULL_DOMAIN),
        t_full=loss(K_AND_T, FULL_DOMAIN),
        k_suppressing=loss(K, SUPPRESSING),
        t_suppressing=loss(K_AND_T, SUPPRESSING),
        t_mondrian=loss(K_AND_T, LOCAL_MONDRIAN),
        t_mondrian_suppressing=loss(K_AND_T, SUPPRESSING_MONDRIAN),
        k_mondrian_suppressing=loss(K, SUPPRESSING_MONDRIAN),
        k_times=times(K),
        k_sets=loss(K, RANGES),
        t_sets=loss(K_AND_T, RANGES),
    )


def page(text: str, written: str) -> str:
    """Give the page with the section between its marks, before that of `mondrian` where it is new."""
    if BEGIN not in text:
        text = text.replace(BEFORE, f"{BEGIN}{END}\n{BEFORE}", 1)
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{written}{END}{rest.partition(END)[2]}"


def _loss(row: Row) -> float:
    if row.label_loss is None:
        raise ValueError(f"{row.way} has no label loss")
    return row.label_loss


def main() -> None:
    """Measure, and write the section."""
    if not (FOLDER / "adult.csv").is_file():
        raise SystemExit(
            f"{FOLDER / 'adult.csv'} is missing: DUCKANON_REFERENCE names the folder of the data"
        )
    # A release says what it may reveal; here nothing but its loss is asked.
    warnings.simplefilter("ignore", duckanon.DuckanonWarning)
    written = section([measured(setting, way) for setting in (K, K_AND_T) for way in WAYS])
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), written), encoding="utf-8")


if __name__ == "__main__":
    main()
