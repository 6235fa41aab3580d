"""Every published method on EIA (4,092 x 11) at k = 3: CPU seconds without compilation, and loss.

Run from the repository: ``python -m benchmarks.bench_literature``. Methods with t use RESREVENUE as sensitive
column, t = 0.1, and the other ten columns. The optimal univariate method uses TOTREVENUE alone.
"""

from __future__ import annotations

import sys
from time import process_time

from benchmarks.bars import Results, reference_table
from duckanon import information_loss, partition
from duckanon.literature.registry import PUBLISHED
from tests.reference import EIA_COLUMNS

K, T, SLOWEST = 3, "0.1", 10.0


def main() -> int:
    """Print one line a method and one bar."""
    results = Results("bench_literature")
    table = reference_table("eia.csv", EIA_COLUMNS)
    if table is None:
        results.not_run("published methods on EIA")
        return results.exit_code()
    seconds = []
    for name, entry in PUBLISHED.items():
        points = table[:, [9]] if name == "univariate" else table
        asked = {}
        if entry.needs_t:
            points = table[:, [0, *range(2, table.shape[1])]]
            asked = {"sensitive": table[:, 1], "t": T}
        # A first call that is not timed, since it compiles.
        partition(points[:60], K, name, **{**asked, **({"sensitive": table[:60, 1]} if asked else {})})
        start = process_time()
        labels = partition(points, K, name, **asked)
        seconds.append(process_time() - start)
        loss = information_loss(points, labels)
        results.row("EIA, k = 3", method=name, **{"CPU s": round(seconds[-1], 3), "information loss %": loss})
    results.bar("CPU seconds of the slowest published method on EIA, k = 3", max(seconds), SLOWEST)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
