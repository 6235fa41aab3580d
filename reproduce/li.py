"""Li, Li and Venkatasubramanian, "t-Closeness: Privacy Beyond k-Anonymity and l-Diversity", ICDE 2007."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from duckanon.measures import (
    distinct_l,
    emd,
    entropy_l,
    kullback_leibler_distance,
    l_diversity,
    maximum_emd,
    minimum_class_size,
    recursive_c,
    similarity_attack,
    variational_distance,
)
from reproduce.li_adult import (
    PAPER,
    adult_attributes,
    full_domain,
    own_classes,
    similarity_attack_on_adult,
)
from reproduce.rows import Maker, Row, Section, row

TABLE_1 = ("Heart Disease",) * 3 + ("Flu", "Heart Disease", "Cancer", "Heart Disease", "Cancer", "Cancer")
"""Disease of the records 1 to 9."""

SALARY = (3, 4, 5, 6, 11, 8, 7, 9, 10)
"""Table 3: salary of the records 1 to 9 in thousands."""

DISEASE = (
    "gastric ulcer", "gastritis", "stomach cancer", "gastritis", "flu", "bronchitis", "bronchitis",
    "pneumonia", "stomach cancer",
)  # fmt: skip
"""Table 3: disease of the records 1 to 9."""

BY_THREE = (0, 0, 0, 1, 1, 1, 2, 2, 2)
"""Classes of Tables 2 and 4: records 1 to 3, 4 to 6 and 7 to 9."""

TABLE_5 = (0, 2, 0, 1, 1, 1, 2, 0, 2)
"""Classes of Table 5: records 1, 3, 8, then 4, 5, 6, then 2, 7, 9."""

FIGURE_1 = {
    "flu": ("respiratory infection", "respiratory and circulatory"),
    "pneumonia": ("respiratory infection", "respiratory and circulatory"),
    "bronchitis": ("respiratory infection", "respiratory and circulatory"),
    "pulmonary edema": ("vascular lung disease", "respiratory and circulatory"),
    "pulmonary embolism": ("vascular lung disease", "respiratory and circulatory"),
    "gastric ulcer": ("stomach disease", "digestive"),
    "stomach cancer": ("stomach disease", "digestive"),
    "gastritis": ("stomach disease", "digestive"),
    "colitis": ("colon disease", "digestive"),
    "colon cancer": ("colon disease", "digestive"),
}
"""The two nodes above each disease in the hierarchy of height 3."""

FLOW = ((5, 11), (5, 10), (5, 9), (4, 8), (4, 7), (4, 6), (3, 5), (3, 4))
"""Footnote 4: pairs between which a ninth of the mass is moved."""

UNIFORM = tuple(sorted(set(DISEASE)))
"""Distribution of the whole table if each of the six diseases counts once."""


def disease_paths(diseases: tuple[str, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the tree nodes of each distinct disease, ascending, on the four levels of Figure 1."""
    nodes = np.array([(leaf, *FIGURE_1[leaf], "disease") for leaf in sorted(set(diseases))]).T
    return np.stack([np.unique(level, return_inverse=True)[1] for level in nodes], axis=1).astype(np.int64)


def diversity_examples() -> Section:
    """Tables 1, 2 and 4, Examples 1 to 3."""
    diseases, tree = distinct_l(BY_THREE, TABLE_1), disease_paths(DISEASE)
    first = SALARY[:3]
    rows = [
        row("Table 2: k", "3", minimum_class_size(BY_THREE)),
        row("Example 1: diseases in the class of Bob", "1", int(diseases[0])),
        row("Example 1: diseases in the class of Carl", "2", int(diseases[2]), "heart disease or cancer"),
    ]
    for name, values in (("Salary", SALARY), ("Disease", DISEASE)):
        rows += [
            row(f"Table 4, {name}: distinct l", "3", l_diversity(BY_THREE, values)),
            row(f"Table 4, {name}: entropy l", "3", l_diversity(BY_THREE, values, "entropy")),
        ]
    revealed = "records whose disease is known to be of one kind"
    return Section(
        PAPER,
        "limits of k-anonymity and l-diversity (Tables 1 to 5, Examples 1 to 3)",
        _DIVERSITY,
        (
            *rows,
            row("Example 3, Table 4: least salary in the class of Bob, in thousands", "3", min(first)),
            row("Example 3, Table 4: greatest salary in the class of Bob, in thousands", "5", max(first)),
            row(f"Example 3, Table 4: {revealed}", "3", similarity_attack(BY_THREE, DISEASE, tree, 1)),
            row(f"section 5.3, Table 5: {revealed}", "0", similarity_attack(TABLE_5, DISEASE, tree, 1)),
            *_skewness(),
        ),
    )


def _skewness() -> list[Row]:
    """Return the rows of Example 2 and the skewness attack: 10000 tests, 1 % of them positive."""
    tests = np.repeat([1, 0], [100, 9900])
    # Classes of 50 records: half positive, 49 and 1, 1 and 49.
    labels = np.repeat([0, 1, 2], 50)
    positive = np.concatenate([np.repeat([1, 0], [many, 50 - many]) for many in (25, 49, 1)])
    share = [100 * float(positive[labels == one].mean()) for one in range(3)]
    diverse, whole = entropy_l(labels, positive), float(entropy_l(np.zeros(10000, dtype=int), tests)[0])
    c = recursive_c(labels, positive, 2)
    return [
        row("Example 2: distinct 2-diverse classes at most", "100", int(tests.sum())),
        row("Example 2: share of positives, in %", "1", 100 * float(tests.mean())),
        row("section 3, half positive: distinct l", "2", int(distinct_l(labels, positive)[0])),
        row("section 3, half positive: entropy l", "2", float(diverse[0])),
        row("section 3, half positive: chance to be positive, in %", "50", share[0]),
        row("section 3, 49 of 50 positive: distinct l", "2", int(distinct_l(labels, positive)[1])),
        row("section 3, 49 of 50 positive: chance to be positive, in %", "98", share[1]),
        Row("section 3, 49 of 50 positive: entropy l above that of the table", "higher",
            f"{diverse[1]:.4f}, table {whole:.4f}", bool(diverse[1] > whole)),
        Row("section 3, 49 of 50 and 1 of 50 positive: diversity", "the same",
            f"entropy l {diverse[1]:.4f} and {diverse[2]:.4f}, c {c[1]:g} and {c[2]:g} for l = 2",
            bool(diverse[1] == diverse[2] and c[1] == c[2])),
    ]  # fmt: skip


def salary_examples() -> Section:
    """Section 4 and section 5.3: the classes of Tables 4 and 5 by salary."""
    found = emd(BY_THREE, SALARY)
    variational, divergence = (
        variational_distance(BY_THREE, SALARY),
        kullback_leibler_distance(BY_THREE, SALARY),
    )
    work = sum(Fraction(abs(from_ - to), 8) for from_, to in FLOW) / 9
    return Section(
        PAPER,
        "EMD of salaries (sections 4 and 5.3, Table 5)",
        _SALARY,
        (
            row("section 5.3: D[{3k, 4k, 5k}, Q]", "0.375", float(found[0])),
            row("section 5.3: D[{6k, 8k, 11k}, Q]", "0.167", float(found[1])),
            row("footnote 4: work of the flow", "0.375", float(work)),
            Row("section 4: P1 leaks more than P2 by EMD", "D[P1, Q] > D[P2, Q]",
                f"{found[0]:.3f} > {found[1]:.3f}", bool(found[0] > found[1])),
            *(
                Row(f"section 4: P1 and P2 by {name}", "no difference", f"{each[0]:.4f} and {each[1]:.4f}",
                    bool(each[0] == each[1]))
                for name, each in (("variational distance", variational), ("KL distance", divergence))
            ),
            row("Table 5, Salary: t", "0.167", maximum_emd(TABLE_5, SALARY)),
        ),
    )  # fmt: skip


def disease_examples() -> Section:
    """Figure 1 and section 5.3: the classes of Tables 4 and 5 by disease, under both readings of Q."""
    rows = [
        _distance("Flu", "Bronchitis", "1/3"),
        _distance("Flu", "Pulmonary embolism", "2/3"),
        _distance("Flu", "Stomach cancer", "1"),
    ]
    tree = disease_paths(DISEASE)
    for reading, whole in (("Q uniform over 6 diseases", UNIFORM), ("Q of the 9 records", DISEASE)):
        four, five = (
            emd(labels, DISEASE, "hierarchical", paths=tree, population=whole)
            for labels in (BY_THREE, TABLE_5)
        )
        classes = ", ".join(f"{each:.3f}" for each in five)
        rows += [
            row(f"section 5.3, {reading}: D[{{gastric ulcer, gastritis, stomach cancer}}, Q]", "0.5",
                float(four[0]), "" if whole is UNIFORM else _UNIFORM_NOTE),
            row(f"section 5.3, {reading}: D[{{gastric ulcer, stomach cancer, pneumonia}}, Q]", "0.278",
                float(five[0]), "" if whole is UNIFORM else _UNIFORM_NOTE),
            row(f"Table 5, Disease, {reading}: t", "0.278", float(five.max()), f"its classes: {classes}"),
        ]  # fmt: skip
    return Section(PAPER, "EMD of diseases (Figure 1, section 5.3, Table 5)", _DISEASE, tuple(rows))


def limits_of_emd() -> Section:
    """Section 8: equal EMD, unequal gain."""
    rows = []
    for before, after, printed, increase in ((1, 11, "0.1", "1000"), (40, 50, "0.1", "25")):
        people = np.repeat([0, 1], [before, 100 - before])
        members = np.repeat([0, 1], [after, 100 - after])
        labels = np.zeros(100, dtype=np.int64)
        place = f"section 8, ({before / 100}, {1 - before / 100:g}) and ({after / 100}, {1 - after / 100:g})"
        gain = float(kullback_leibler_distance(labels, members, population=people)[0])
        rows += [
            row(f"{place}: EMD", printed, maximum_emd(labels, members, "equal", population=people),
                f"KL distance {gain:.4f}"),
            row(f"{place}: increase of the first probability, in %", increase,
                100 * (after - before) / before),
        ]  # fmt: skip
    return Section(PAPER, "what the EMD does not tell (section 8)", _LIMITS, tuple(rows))


def _distance(one: str, other: str, printed: str) -> Row:
    """Return the row of the ground distance of two diseases."""
    # The EMD is half of it: from two equally frequent values to one of them, half of the mass moves.
    pair = (one.lower(), other.lower())
    far = 2.0 * emd([0, 1], pair, "hierarchical", paths=disease_paths(pair))[0]
    match = abs(far - Fraction(printed)) < 1e-12
    return Row(f"section 5.3: distance of {one} and {other}", printed, f"{far:.4f}", bool(match))


_UNIFORM_NOTE = "printed for the uniform Q"

_DIVERSITY = (
    "Records and classes typed from the tables; the measures are those of duckanon.measures. What the "
    "examples say holds: a 3-anonymous table gives a disease away, a 3-diverse one that it is one of the "
    "stomach, and classes of equal diversity differ in risk as much as 98 % from 2 %. The published "
    "remedy of section 5.3, Table 5, stops the attack."
)

_SALARY = (
    "EMD with ordered distance on the nine salaries. All figures come out. The variational and the "
    "Kullback-Leibler distance cannot tell the two classes of section 4 apart, as the paper says."
)

_DISEASE = (
    "EMD with hierarchical distance; the tree is that of Figure 1: respiratory infections (flu, "
    "pneumonia, bronchitis) and vascular lung diseases under one node, diseases of the stomach (gastric "
    "ulcer, stomach cancer, gastritis) and of the colon under the other, height 3.\n\n"
    "The printed 0.5 and 0.278 are distances from a uniform distribution over the six diseases of the "
    "table. By Definition 2 the overall distribution is that of the nine records, among which three "
    "diseases occur twice; then both are lower, and Table 5 is not 0.278-close: one of its other classes "
    "is farther away. An audit here takes the records."
)

_LIMITS = (
    "The first pair of each place is the distribution of the table, the second that of the class. Equal "
    "EMD goes with very different growth of a probability, as the paper says; the Kullback-Leibler "
    "distance, which it names as the other half of a better measure, tells them apart."
)

SECTIONS: tuple[Maker, ...] = (
    diversity_examples, salary_examples, disease_examples, limits_of_emd, adult_attributes,
    similarity_attack_on_adult, full_domain, own_classes,
)  # fmt: skip
"""Functions that measure one section each."""
