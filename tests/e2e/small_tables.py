"""Random small tables and the classes of their releases; as a program, with an empty compiler cache.

``python -m tests.e2e.small_tables`` prints the classes as JSON, then whether numba was imported.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from typing import Any

import duckdb

import duckanon
from duckanon.kernels import plain
from duckanon.literature.registry import PUBLISHED
from duckanon.release.unpublished import equivalence_classes

DISTANCES = ("ordered", "equal", "hierarchical")
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"t": 0.3},
    {"l": 3},
    {"l": 2.5, "l_diversity": "entropy"},
    {"l": 2, "l_diversity": "recursive", "c": 2},
    {"t": 0.25, "l": 2},
    {"t": 0.15, "suppression_limit": 0.2},
)


def fill(con: duckdb.DuckDBPyConnection, draw: random.Random) -> int:
    """Make table p: numbers with ties and NULLs, a constant, text, duplicates; and a tree of the values of s.

    Returns how many records it has.
    """
    size = draw.choice([9, 15, 20, 40])
    ties = draw.choice([3, 12, 10**6])
    con.execute(
        "CREATE OR REPLACE TABLE p(a DOUBLE, b INTEGER, same INTEGER, name VARCHAR, s VARCHAR, u INTEGER)"
    )
    rows: list[tuple[object, ...]] = []
    for _ in range(size):
        if rows and draw.random() < 0.2:
            rows.append(draw.choice(rows))
            continue
        a = None if draw.random() < 0.1 else draw.randrange(ties) / 7 * 10.0 ** draw.choice([0, 0, 0, 3])
        row = (a, draw.randrange(40), 5, draw.choice(["x", "y", "zz", None]), draw.choice("abcdef"))
        rows.append((*row, draw.randrange(30)))
    con.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", rows)
    con.execute(
        "CREATE OR REPLACE TABLE tree AS FROM (VALUES ('a', 'v', '*'), ('b', 'v', '*'), ('c', 'w', '*'), "
        "('d', 'w', '*'), ('e', 'w', '*'), ('f', 'o', '*')) t(s, kind, root)"
    )
    return size


def policies(draw: random.Random, size: int) -> list[duckanon.Policy]:
    """Give some policies: every effort, and one with a published method."""
    found = []
    quasi = draw.choice([["a"], ["b"], ["a", "b"], ["a", "b", "same", "name"], ["name"], ["same"]])
    for effort in (None, "fast", "balanced", *(["best"] if size == 9 else [])):
        given = dict(draw.choice(RULES))
        sensitive = draw.choice([["s"], ["u"], ["s", "u"]])
        if "t" in given:
            chosen = {name: draw.choice(DISTANCES if name == "s" else DISTANCES[:2]) for name in sensitive}
            given["distance"] = {
                name: "equal" if d == "ordered" and name == "s" else d for name, d in chosen.items()
            }
            if given["distance"].get("s") == "hierarchical":
                given["hierarchies"] = {"s": "tree"}
        found.append(
            duckanon.Policy(
                quasi_identifiers=quasi,
                sensitive=sensitive,
                k=draw.randrange(2, 5),
                insensitive="*",
                refine=effort is not None,
                effort=effort or "fast",
                seed=draw.randrange(9),
                **given,
            )
        )
    method = draw.choice(sorted(PUBLISHED))
    asked: dict[str, Any] = {"t": 0.3} if PUBLISHED[method].needs_t else {}
    found.append(
        duckanon.Policy(
            quasi_identifiers=quasi,
            sensitive="u",
            k=draw.randrange(2, 4),
            insensitive="*",
            method=method,
            **asked,
        )
    )
    return found


def classes(seeds: range) -> list[object]:
    """Give the classes of each release, or what the refusal says."""
    found: list[object] = []
    warnings.simplefilter("ignore", duckanon.DuckanonWarning)
    with duckdb.connect() as con:
        for seed in seeds:
            draw = random.Random(seed)
            for policy in policies(draw, fill(con, draw)):
                try:
                    answer = equivalence_classes(con, "FROM p", policy)
                    found.append(answer.table.column("class_id").to_pylist())
                except duckanon.DuckanonError as error:
                    found.append(f"{type(error).__name__}: {error}")
    return found


def main(first: str, last: str) -> None:
    """Print the classes of the tables with these seeds, made by plain Python alone whatever that costs."""
    plain.ROWS = dict.fromkeys(plain.ROWS, 10**6)
    plain.RELEASE = plain.PATIENCE = float("inf")
    print(json.dumps([classes(range(int(first), int(last))), "numba" in sys.modules]))


if __name__ == "__main__":
    main(*sys.argv[1:])
