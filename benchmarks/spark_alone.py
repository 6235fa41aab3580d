"""The work of the tile stage in plain processes without Spark and Java, one process and two at the same time.

The speedup of two processes is the best that the machine allows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from typing import TYPE_CHECKING

from benchmarks.spark_process import command

if TYPE_CHECKING:
    from pathlib import Path

TILES, ROUNDS = 40, 3

KEEP = """
def keeping(inner, folder):
    # The tile stage that first keeps what its tasks are given: their tiles, and what they know.
    import pickle, shutil
    from duckanon.spark import partition
    def run(dealt, staged, embedded, policy, labelled):
        given = Path(dealt.inputFiles()[0].removeprefix("file://")).parent
        shutil.copytree(given, Path(folder) / "tiles")
        work = partition.work_of(embedded, policy, staged.size)
        (Path(folder) / "work").write_bytes(pickle.dumps(work))
        return inner(dealt, staged, embedded, policy, labelled)
    return run
"""

PROGRAM = """
import pickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from duckanon.database import arrow
from duckanon.spark import partition

class Sent:
    def __init__(self, value):
        self.value = value

folder, first, step, most = Path(sys.argv[1]), *map(int, sys.argv[2:])
pa.set_cpu_count(1)
context, table = Sent(pickle.loads((folder / "work").read_bytes())), pq.read_table(folder / "tiles")
tile, given = arrow.numbers(table.column("part")), []
for number in np.unique(tile)[:most][first::step].tolist():
    given.append(((pa.scalar(number),), table.take(arrow.arrow(np.flatnonzero(tile == number)))))
del table
partition.labelled(context, *given[0])  # compiled, or read from where compiled code is kept
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
for key, records in given:
    partition.labelled(context, key, records)
print(json.dumps([time.monotonic() - begin, len(given)]))
"""


def seconds(python: Path, folder: Path, processes: int) -> tuple[float, int]:
    """Return the seconds of `processes` processes that begin at the same time, and the number of tiles."""
    words = [command(python, PROGRAM, folder, first, processes, TILES) for first in range(processes)]
    running = [
        subprocess.Popen(word, cwd=folder, env=more, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for word, more in words
    ]
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    told = [json.loads(one.communicate()[0]) for one in running]
    return max(spent for spent, _ in told), sum(tiles for _, tiles in told)


def alone(python: Path, folder: Path) -> dict[str, float]:
    """Return the seconds of one process and of two, medians of alternating runs, and their ratio."""
    rounds = [[seconds(python, folder, processes) for processes in (1, 2)] for _ in range(ROUNDS)]
    one, two = (statistics.median(spent for spent, _ in column) for column in zip(*rounds, strict=True))
    return {"tiles": rounds[0][0][1], "one s": one, "two s": two, "two / one": two / one}
