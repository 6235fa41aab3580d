"""Cost of the p % rule, under which no class mean reveals a record: CPU time and loss.

Run from the repository: ``python -m benchmarks.bench_p_percent``. Tables are released with and without
``p_percent = 10``, each in its own process. One table has 1,000,000 records of five numbers, uniform or with
heavy tails (lognormal with sigma 1.5, Pareto with index 1.2). The second has the bundled census records by
age, weeks and wage, which is mostly 0. The third has all 13 columns of the Census table of 1080 records. CPU
seconds are those of a process with its threads, from the table to the audited view, without compilation.
Memory is the peak of the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.bars import MISSING, ROOT, Results, shrunk

RECORDS, P = 1_000_000, 10
MOST_CPU = 2.0

RUN = """
import json, re, resource, sys
from time import process_time
import duckanon
records, kind, k, option, census = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
unit = "((hash(i, {0}) % 1000000 + 0.5) / 1e6)"
forms = {
    "uniform": unit,
    "pareto": f"({unit} ** (-1 / 1.2))",
    "lognormal": f"exp(1.5 * sqrt(-2 * ln({unit})) * cos(2 * pi() * hash(i, {{0}}, 7) % 1000000 / 1e6))",
}
with duckanon.connect() as con:
    if census:
        con.duckdb.execute(f"CREATE TABLE source AS {census}")
        names = [row[0] for row in con.duckdb.execute("DESCRIBE source").fetchall()]
        con.duckdb.execute("CREATE TABLE few AS FROM source LIMIT 400")
    else:
        names = list("abcde")
        numbers = ", ".join(f"{forms[kind].format(place)} AS {name}" for place, name in enumerate(names))
        source = f"SELECT {numbers}, hash(i, 9) % 40 AS s FROM range({{}}) r(i)"
        con.duckdb.execute(f"CREATE TABLE few AS {source.format(20_000)}")
        con.duckdb.execute(f"CREATE TABLE source AS {source.format(records)}")
    quasi = ", ".join(f'"{name}"' for name in names)
    options = f"quasi_identifiers = ({quasi}), insensitive = *, k = {k}{option}"
    view = f"CREATE ANONYMIZED VIEW {{}} AS FROM {{}} WITH ({options})"
    con.run_script(view.format("compiled", "few"))
    begun = process_time()
    outcome, = con.run_script(view.format("released", "source"))
    spent = process_time() - begun
    measures = {one.measure: one.value for one in outcome.report.measures}
    size, = con.duckdb.execute("SELECT count(*) FROM source").fetchone()
try:
    with open("/proc/self/status") as status:
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) * 1024 / 1e9
except FileNotFoundError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9
print(json.dumps({
    "records": size, "classes": outcome.report.classes, "information loss %": measures["information_loss"],
    "CPU s": spent, "peak RSS GB": peak,
}))
"""

REFERENCE = Path(os.environ.get("DUCKANON_REFERENCE", "missing")) / "census.csv"
INCOME = ROOT / "fixtures" / "census_income.parquet"
FILES = {
    "census income": f"SELECT age, weeks_worked, wage_per_hour FROM '{INCOME}'",
    "Census": f"FROM read_csv('{REFERENCE}')",
}
CASES = (
    *(("uniform", 5), ("lognormal", 5), ("pareto", 5), ("census income", 5)),
    *(("Census", 3), ("Census", 5), ("Census", 10)),
)
OPTIONS = {"no p_percent": "", "p_percent = 10": f", p_percent = {P}"}


def released(records: int, kind: str, k: int, option: str) -> dict[str, float] | None:
    """Return the figures of a release in a separate process, or None if it failed."""
    arguments = [str(records), kind, str(k), option, FILES.get(kind, "")]
    command = [sys.executable, "-W", "ignore", "-c", RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2_000:], flush=True)
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Print one line a release and one a bar."""
    results = Results("bench_p_percent")
    records = shrunk(RECORDS, 5_000)
    for kind, k in CASES:
        table = kind if kind in FILES else f"{records:,} records of five columns"
        if kind == "Census" and not REFERENCE.exists():
            results.row(table, values=MISSING)
            continue
        found = {}
        for name, option in OPTIONS.items():
            found[name] = released(records, kind, k, option)
            results.row(table, values=kind, k=k, option=name, **(found[name] or {}))
        plain, kept = found.values()
        if kind not in FILES:
            share = kept["CPU s"] / plain["CPU s"] if kept and plain else None
            results.bar(f"{kind}: CPU s with p_percent / without", share, MOST_CPU)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
