"""Write docs/performance.md from the results of the benchmarks: ``make performance`` after ``make bench``.

After one benchmark alone the sections of the others stay as they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

HEAD = """\
# Performance

Written by `make performance` from the last run of each benchmark; no figure here is typed by hand. A bar is
what a benchmark asks for: it is kept or missed, and a missed bar makes `make bench` fail. Information loss
is IL = 100 SSE / SST over z-scored quasi-identifiers: the share of their spread, in per cent, that classes
hide.
"""

TITLES = {
    "bench_tclose": "Loss under k-anonymity and t-closeness",
    "bench_kanon": "Loss under k-anonymity alone",
    "bench_never_worse": "Loss beside the best published method, table by table",
    "bench_scale": "Loss and time beside exact MDAV",
    "bench_exchange": "The exchange of records beside its slow reference",
    "bench_release": "Whole releases, at any size",
    "bench_stages": "Recode and audit in little memory",
    "bench_hundred": "A hundred million rows",
    "bench_first": "The first minute of an installation",
    "bench_demo": "The demo after installation",
    "bench_literature": "Published methods, one beside the other",
    "bench_audit": "Audits, in plain SQL",
    "bench_wide": "Tables of many columns",
    "bench_foreign": "Files of others",
}

ABOUT = {
    "bench_demo": """\
`duckanon demo --export` with an empty compiler cache, and with the cache of the first run; without machine
code all is compiled. `load` is the load of the machine before each run, `loop s` what the loop of "The first
minute" takes on two cores at a time: where it is more than a second, seconds are long.""",
    "bench_first": """\
Processes on an empty compiler cache, imports included; see "The first minute" in
[architecture.md](architecture.md). The unit is a loop of plain Python in the same run.""",
    "bench_tclose": """\
Classes by `partition(points, k, 'auto', sensitive=..., t=..., refine=True)` with effort 'balanced', beside
Algorithm 3 of Soria-Comas et al. (IEEE TKDE 27(11), 2015) as published, on the Census data. Each refined
partition was audited in exact fractions. Algorithm 3 itself may miss t slightly.""",
    "bench_kanon": """\
The three data sets on which methods of microaggregation are compared. `published` is the least loss of a
published method. CPU seconds are those of one process with all its threads, compilation excluded. `loop s` is
what two loops of 33,000,000 steps of plain Python take at a time, before and after.""",
    "bench_never_worse": """\
Method `auto` beside the best published method with the same guarantee, on tables of many shapes: losses are
ratios to the least of theirs. With l, which none of them knows, theirs are merged by Algorithm 1. CPU seconds
include what a cell is the first to compile.""",
    "bench_scale": """\
A seeded mixture of 20 normal distributions. MDAV is our own exact one, itself measured by
`benchmarks.bench_kernels`; CPU seconds as above, the median of the rounds.""",
    "bench_exchange": """\
A tile of 16,384 records and its refinement at effort 'balanced', with the kernel of the product and with the
slow one of the tests, which makes the same exchanges in the same order. Compilation excluded, medians of
three.""",
    "bench_stages": """\
Each run is a process of its own. `stage` to `advise` are the stages of a release, `sort` is DuckDB's ORDER BY
ALL of the table, which shows what n log n costs on the machine. The bars compare with the formula, medians
of five rounds: at 1 GB ten million rows are written to disk, and one million are not.""",
    "bench_literature": """\
EIA at k = 3, 4,092 records of eleven columns; methods with t take one of them as sensitive, t = 0.1.
Compilation excluded.""",
    "bench_audit": """\
Quasi-identifiers of several types, k, l and t of the sensitive columns. pyCANON runs in a process of its own,
on a table without NULLs, the domain in which it is right. `load` is the load of the machine meanwhile.""",
    "bench_wide": """\
Whole commands, start and all, on CSV files of 500 records. Half of the columns hold words. The unit is a loop
of plain Python in the same run, which takes a CPU second on the machine of the bars. CPU seconds are those of
all threads.""",
    "bench_foreign": """\
Rows of a file are copied before the audit, since a file may state false statistics, which are compared with
the rows. Without the copy, the audit reads the file as DuckDB does. A view is audited twice, as a
copy and as it stands; beside it stands the audit of the table that it shows. CPU seconds are medians.""",
    "bench_release": """\
`CREATE ANONYMIZED VIEW` from the source in memory to the audited view: staging, partition, recoding, audit
and publication. Every run is a process of its own; its peak memory includes the source. Algorithm 3 in
tiles is a partition only; every tile holds its share of each stratum of the whole table. An exponent of 1
is linear cost; it is the greater one of wall and CPU time.

DuckDB holds the table and keeps to `memory_limit`. Python holds as many tiles of at most 16,384 records as
there are cores, and two more; a tile that is refined needs about ten times the bytes of its coordinates (8 a
record and dimension). Labels and means wait on disk. Figures of 1,000,000 rows are medians of three runs, but
for those with k alone and Algorithm 3.""",
    "bench_hundred": """\
100,000,000 rows in Parquet files, released into a database in a file, on the machine that is named; this
benchmark is run by hand: `python -m benchmarks.bench_hundred`.""",
}

REPEAT = """\
## How to repeat

```
make bench         # all benchmarks, one after the other, on a machine that does nothing else
make performance   # this page
```

One alone: `python -m benchmarks.bench_tclose` (`bench_kanon`, `bench_scale`, `bench_release`); its results
go to `build/bench/`. Reference data (`census.csv`, `tarragona.csv`, `eia.csv`) lie in the folder that
`DUCKANON_REFERENCE` names; bars without their data are not run. Losses are the same on every machine; times
are not. `DUCKANON_BENCH_SHRINK=100` takes a hundredth of the records, only to see that the benchmarks work.
"""

Entry = dict[str, Any]


def shown(cell: str | float | None) -> str:
    """Give a cell as text.

    Parameters
    ----------
    cell : str, float or None
        A figure, a name, or nothing.

    Returns
    -------
    str
        Numbers with at most six significant digits, whole numbers in full.
    """
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if float(cell).is_integer():
        return f"{int(cell):,}"
    return f"{cell:.6g}" if abs(cell) < 1e5 else f"{cell:,.0f}"


def table(rows: list[Entry]) -> str:
    """Give rows as a Markdown table.

    Parameters
    ----------
    rows : list of dict
        Cells by heading; a row may lack some.

    Returns
    -------
    str
        The headings in the order in which they first occur; numbers stand on the right.
    """
    headings = list(dict.fromkeys(name for row in rows for name in row))
    words = {name for name in headings if any(isinstance(row.get(name), str) for row in rows)}
    rule = ["---" if name in words else "---:" for name in headings]
    lines = [headings, rule, *([shown(row.get(name)) for name in headings] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(name: str, entries: list[Entry]) -> str:
    """Give the section of a benchmark.

    Parameters
    ----------
    name : str
        Of the benchmark.
    entries : list of dict
        Its results; none if it has not run.

    Returns
    -------
    str
        Markdown.
    """
    parts = [f"## {TITLES[name]}", ABOUT[name]]
    if not entries:
        return "\n\n".join([*parts, f"Not measured yet: `python -m benchmarks.{name}`."])
    run = entries[0]
    shrink = f" Only 1 / {run['shrink']} of the records: a trial." if run["shrink"] != 1 else ""
    parts.append(
        f"`{name}`, {run['date']}, {run['system']}, {run['cores']} cores, Python {run['python']}, "
        f"numpy {run['numpy']}, duckdb {run['duckdb']}.{shrink}"
    )
    rows: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["kind"] == "row":
            rows.setdefault(entry["table"], []).append(entry["cells"])
    for heading, cells in rows.items():
        parts += [f"{heading}:", table(cells)]
    bars = [entry for entry in entries if entry["kind"] == "bar"]
    if bars:
        names = {"text": "bar", "value": "measured", "limit": "at most", "verdict": "verdict"}
        parts.append(table([{names[key]: bar[key] for key in names} for bar in bars]))
    parts += [entry["text"] for entry in entries if entry["kind"] == "note"]
    return "\n\n".join(parts)


def page(folder: Path, before: str = "") -> str:
    """Give the whole page.

    Parameters
    ----------
    folder : Path
        Where the benchmarks put their results.
    before : str
        The page as it is: sections of benchmarks without results are kept.

    Returns
    -------
    str
        Markdown.
    """
    kept = {each.partition("\n")[0]: each.strip() for each in before.split("\n## ")[1:]}
    parts = [HEAD.rstrip()]
    for name, title in TITLES.items():
        path = folder / f"{name}.json"
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            parts.append(section(name, [json.loads(line) for line in lines]))
        else:
            parts.append(f"## {kept[title]}" if title in kept else section(name, []))
    return "\n\n".join([*parts, REPEAT])


def main() -> None:
    """Write the page; without any result of a benchmark that is an error.

    Raises
    ------
    SystemExit
        There is none, or an argument is wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--results", type=Path, default=ROOT / "build" / "bench", help="folder of the results"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance.md", help="page to write")
    chosen = parser.parse_args()
    if not any((chosen.results / f"{name}.json").is_file() for name in TITLES):
        parser.error(f"no results in {chosen.results}: run make bench first")
    before = chosen.output.read_text(encoding="utf-8") if chosen.output.is_file() else ""
    chosen.output.write_text(page(chosen.results, before), encoding="utf-8")


if __name__ == "__main__":
    main()
