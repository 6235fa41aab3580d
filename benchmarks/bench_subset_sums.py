"""Subset-sum attack on class means: which persons of a register are in a class, by the rounding of the means.

Run from the repository: ``python -m benchmarks.bench_subset_sums``. A register has age and income of 600
persons. A release of 300 of them has classes of 5 with the means of both. The attacker has the register. For
each class the attacker takes the 50 persons nearest to its means, and finds all sets of 5 persons whose
rounded means are the released ones (meet in the middle: pairs sorted by their sum, looked up for each three
others). If there is exactly one such set, its persons are in the release, and have the sensitive values of
the class.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import duckanon

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERSONS, SAMPLE, K, NEAREST_RECORDS = 600, 300, 5, 50

INCOMES = {
    "DOUBLE, any digits": ("DOUBLE", "income"),
    "DOUBLE, cents": ("DOUBLE", "round(income, 2)"),
    "DECIMAL(9,2)": ("DECIMAL(9,2)", "income"),
    "BIGINT": ("BIGINT", "round(income)"),
}
"""By name: type of the income, and expression of the register's income from one with all digits."""

ROUNDED = {"all digits": ", digits = {income: 12}", "default": "", "whole": ", digits = {income: 0}",
           "hundreds": ", digits = {income: -2}"}  # fmt: skip


class Found(NamedTuple):
    """Result of an attack."""

    classes: int
    told: int  # classes with exactly one set of persons that has the means, the right set


def attack(kind: str, options: str, seed: int = 0, *, persons: int = PERSONS, sample: int = SAMPLE) -> Found:
    """Release a sample of the register, and search the persons of each class."""
    draw = np.random.default_rng(seed)
    type_text, income = INCOMES[kind]
    with duckanon.connect() as con:
        register = {"age": draw.integers(18, 80, persons), "income": draw.lognormal(10.4, 0.5, persons)}
        con.execute("CREATE TABLE drawn (id INTEGER, age INTEGER, income DOUBLE)")
        con.duckdb.executemany(
            "INSERT INTO drawn VALUES (?, ?, ?)",
            [[i, int(age), float(pay)] for i, (age, pay) in enumerate(zip(*register.values(), strict=True))],
        )
        con.execute(
            f"CREATE TABLE register AS SELECT id, age, CAST({income} AS {type_text}) AS income FROM drawn"
        )
        con.sql(
            f"CREATE ANONYMIZED VIEW v AS FROM register WHERE id < {sample} "
            f"WITH (quasi_identifiers = (age, income), insensitive = id, k = {K}, effort = 'fast'{options})"
        )
        known = np.array(
            con.execute("SELECT age, CAST(income AS DOUBLE) FROM register ORDER BY id").fetchall()
        )
        # The number of a person only serves to check the result of the attack.
        classes = defaultdict(list)
        for age, mean, number in con.execute("SELECT age, CAST(income AS DOUBLE), id FROM v").fetchall():
            classes[age, mean].append(number)
    half = half_a_unit({mean for _, mean in classes})
    told = sum(
        alike(known, age, mean, half) == {frozenset(members)}
        for (age, mean), members in classes.items()
        if len(members) == K
    )
    return Found(len(classes), told)


def half_a_unit(means: set[float]) -> float:
    """Half a unit of the last digit of released means; next to nothing if they have all digits."""
    for digits in range(-3, 7):
        if all(abs(round(mean, digits) - mean) <= 1e-9 * abs(mean) for mean in means):
            return float(0.5 * 10.0**-digits)
    return 1e-12 * max(map(abs, means))


def alike(known: NDArray[np.float64], age: float, mean: float, half: float) -> set[frozenset[int]]:
    """Sets of K persons near a class with its rounded means; the search stops at two, which prove nothing."""
    scaled = (known - [age, mean]) / known.std(axis=0)
    near = np.argsort((scaled**2).sum(axis=1), kind="stable")[:NEAREST_RECORDS]
    ages, incomes = known[near].T
    pairs = np.array(list(itertools.combinations(range(len(near)), 2)))
    order = np.argsort(incomes[pairs].sum(axis=1), kind="stable")
    pairs = pairs[order]
    sums = incomes[pairs].sum(axis=1)
    threes = np.array(list(itertools.combinations(range(len(near)), 3)))
    rest = K * mean - incomes[threes].sum(axis=1)
    slack = K * half + 1e-9 * abs(mean)
    first, last = np.searchsorted(sums, rest - slack, "left"), np.searchsorted(sums, rest + slack, "right")
    found = set()
    for three in np.flatnonzero(last > first):
        for pair in range(first[three], last[three]):
            persons = frozenset([*threes[three].tolist(), *pairs[pair].tolist()])
            if len(persons) == K and abs(ages[list(persons)].mean() - age) <= 0.5:
                found.add(frozenset(near[list(persons)].tolist()))
                if len(found) > 1:
                    return found
    return found


def main() -> None:
    """Print the results as rows of a table."""
    print(f"| income | {' | '.join(ROUNDED)} |\n|---|{'---|' * len(ROUNDED)}")
    for kind in INCOMES:
        cells = []
        for options in ROUNDED.values():
            found = attack(kind, options)
            cells.append(f"{found.told} of {found.classes}")
        print(f"| {kind} | {' | '.join(cells)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
