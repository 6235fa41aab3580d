"""Loss and CPU time at 100,000 records: blocks and refinement compared with exact MDAV, in one run.

Run from the repository: ``python -m benchmarks.bench_scale``. The data are those of `bench_kernels`. Times
are CPU seconds of the process with all threads, without compilation. Whole releases follow, of a table whose
sensitive or quasi-identifying text differs in every record, compared with a number in place of the text. The
release of a million such records is measured in wall time, in units of a loop of plain Python.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from statistics import median
from time import perf_counter, process_time

from benchmarks.bars import Results, shrunk
from benchmarks.bench_demo import loops
from benchmarks.bench_kernels import mixture, timed
from duckanon import connect, information_loss, partition

RECORDS, DIMENSIONS, K = 100_000, 5, 5
MOST_LOSS_FAST, MOST_TIME_FAST, MOST_LOSS_BEST = 0.945, 0.9, 0.90
ROUNDS, MOST_TIME_SENSITIVE, MOST_TIME_QUASI = 3, 1.5, 2.5
LARGE_TABLE_RECORDS, MOST_LOOPS = 1_000_000, 44.0
# Two texts and two numbers that differ in nearly every record.
PERSON = """
CREATE OR REPLACE TABLE person AS
SELECT
    hash(i) % 1000 / 10 AS a, hash(i + 1) % 90 AS b, hash(i + 2) % 1000000 AS c,
    'name ' || hash(i + 3) AS name, hash(i + 4) % 1000000 AS charge, 'text ' || hash(i + 5) AS note
FROM range({records}) AS r(i)
"""
SENSITIVE_NUMBER = "quasi_identifiers = (a, b, c), sensitive = charge, k = 5, t = 0.2"
SENSITIVE_TEXT = "quasi_identifiers = (a, b, c), sensitive = note, k = 5, t = 0.2"
QUASI_NUMBER = "quasi_identifiers = (a, b, c), k = 5"
QUASI_TEXT = "quasi_identifiers = (a, b, name), k = 5"


def released(records: int, policy: str) -> float:
    """Return the CPU seconds of a release of the columns of `PERSON` that the policy names."""
    columns = [
        name for name in ("a", "b", "c", "name", "charge", "note") if name in re.findall(r"\w+", policy)
    ]
    with warnings.catch_warnings(), connect() as con:
        # The warnings about one class of all records, and about a text of one person in a class, are
        # expected.
        warnings.simplefilter("ignore")
        con.duckdb.execute(PERSON.format(records=records))
        start = process_time()
        con.run_script(
            f"CREATE ANONYMIZED VIEW released AS SELECT {', '.join(columns)} FROM person WITH ({policy})"
        )
        return process_time() - start


def million_texts(results: Results) -> None:
    """Measure the wall time of a release in which each of a million records has its own text."""
    # The bar was set on a machine on which the loop of `bench_first` takes one second.
    n, runs = shrunk(LARGE_TABLE_RECORDS, 2_000), []
    for _ in range(ROUNDS):
        before, start = loops(), perf_counter()
        cpu = released(n, QUASI_TEXT)
        wall = perf_counter() - start
        runs.append((wall, cpu, (before + loops()) / 2))
    ratio = median(wall / loop for wall, _, loop in runs)
    wall, cpu, loop = (median(column) for column in zip(*runs, strict=True))
    results.row(
        f"release, {n:,} different texts of a quasi-identifier",
        **{"s": wall, "CPU s": cpu, "loop s": loop, "ratio": ratio},
    )
    text = f"{n:,} different texts of a quasi-identifier, s in loops of 33,000,000 steps"
    results.bar(text, ratio, MOST_LOOPS)


def many_values(results: Results) -> None:
    """Measure releases with as many texts as records, in units of those with as many numbers."""
    n = shrunk(RECORDS, 1_000)
    cases = [
        ("sensitive texts", SENSITIVE_TEXT, SENSITIVE_NUMBER, MOST_TIME_SENSITIVE),
        ("texts of a quasi-identifier", QUASI_TEXT, QUASI_NUMBER, MOST_TIME_QUASI),
    ]
    for name, texts, numbers, most in cases:
        for policy in (texts, numbers):
            released(1_000, policy)
            released(20_000, policy)
        runs = [(released(n, texts), released(n, numbers)) for _ in range(ROUNDS)]
        ratio = median(text / number for text, number in runs)
        seconds = {"CPU s": median(text for text, _ in runs), "as numbers": median(one for _, one in runs)}
        results.row(f"release, {n:,} different {name}", **seconds, ratio=ratio)
        results.bar(f"CPU time, {n:,} different {name} / numbers", ratio, most)


def main() -> int:
    """Print one line a method and one a bar."""
    results = Results("bench_scale")
    n = shrunk(RECORDS, 1_000)
    warm, points = mixture(1_000, DIMENSIONS), mixture(n, DIMENSIONS)
    fast = partial(partition, k=K, method="blocks", refine=True, effort="fast")
    best = partial(partition, k=K, method="auto", refine=True, effort="best")
    runs = {
        "exact MDAV": (partial(partition, k=K, method="mdav"), 3),
        "blocks, refined, effort 'fast'": (fast, 3),
        "auto, refined, effort 'best'": (best, 1),
    }
    for run, _ in runs.values():
        run(warm)
    seconds, losses = {}, {}
    for name, (run, rounds) in runs.items():
        if rounds > 1:
            seconds[name], labels = timed(partial(run, points))
        else:
            start = process_time()
            labels = run(points)
            seconds[name] = process_time() - start
        losses[name] = information_loss(points, labels)
        table = f"{n:,} x {DIMENSIONS} records, k = {K}"
        cells = {"information loss %": losses[name], "CPU s": round(seconds[name], 3), "rounds": rounds}
        results.row(table, method=name, **cells)
    exact, quick, thorough = runs
    results.bar(f"information loss, {quick} / {exact}", losses[quick] / losses[exact], MOST_LOSS_FAST)
    results.bar(f"CPU time, {quick} / {exact}", seconds[quick] / seconds[exact], MOST_TIME_FAST)
    results.bar(f"information loss, {thorough} / {exact}", losses[thorough] / losses[exact], MOST_LOSS_BEST)
    many_values(results)
    million_texts(results)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
