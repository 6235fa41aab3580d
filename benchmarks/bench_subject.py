"""Cost of counting subjects instead of records, where each subject has one record, and where it has several.

Run from the repository: ``python -m benchmarks.bench_subject``. One table of 1,000,000 records, five numbers
and one sensitive column, k = 5, is released in separate processes: without subjects, with subjects of one
record, and with subjects of five records, which are near each other or anywhere. CPU seconds are those of a
process with all threads, from the table to the audited view, without compilation. Memory is the peak of the
process.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.bars import Results, shrunk

RECORDS, K, OF_EACH = 1_000_000, 5, 5
MOST_CPU, MOST_LOSS, MOST_MEMORY = 1.3, 1.1, 1.2

RUN = """
import json, re, resource, sys
from time import process_time
import duckanon
records, of_each, kind, subject = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
options = "quasi_identifiers = (a, b, c, d, e), sensitive = s, k = 5" + subject
here = f"i // {of_each}" if kind == "alike" else "i"
numbers = ", ".join(
    f"(hash({here}, {place}) % 1000000 + hash({here}, {place}, 1) % 1000000) / 2e6 AS {name}"
    for place, name in enumerate("abcde")
)
source = f"SELECT i // {of_each} AS who, {numbers}, hash(i, 9) % 40 AS s FROM range({{}}) r(i)"
with duckanon.connect() as con:
    con.duckdb.execute(f"CREATE TABLE few AS {source.format(20_000)}")
    con.duckdb.execute(f"CREATE TABLE source AS {source.format(records)}")
    view = "CREATE ANONYMIZED VIEW {} AS FROM {} WITH (" + options + ")"
    con.run_script(view.format("compiled", "few"))
    begun = process_time()
    outcome, = con.run_script(view.format("released", "source"))
    spent = process_time() - begun
    measures = {one.measure: one.value for one in outcome.report.measures}
try:
    with open("/proc/self/status") as status:
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) * 1024 / 1e9
except FileNotFoundError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9
print(json.dumps({
    "classes": outcome.report.classes, "fewest subjects": measures.get("k_subjects"),
    "information loss %": measures["information_loss"], "CPU s": spent, "peak RSS GB": peak,
}))
"""

ONE_RECORD, EQUAL_RECORDS, SCATTERED_RECORDS = (
    "one record each",
    "five records each, all alike",
    "five records each, anywhere",
)
CASES = (
    ("no subject", 1, "any", ", identifiers = who"),
    (ONE_RECORD, 1, "any", ", subject = who"),
    ("five alike, no subject", OF_EACH, "alike", ", identifiers = who"),
    (EQUAL_RECORDS, OF_EACH, "alike", ", subject = who"),
    (SCATTERED_RECORDS, OF_EACH, "any", ", subject = who"),
)


def released(records: int, of_each: int, kind: str, subject: str) -> dict[str, float] | None:
    """Return the figures of a release in a separate process, or None if it failed."""
    arguments = [str(records), str(of_each), kind, subject]
    command = [sys.executable, "-W", "ignore", "-c", RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2_000:], flush=True)
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Print one line a release and one a bar."""
    results = Results("bench_subject")
    records = shrunk(RECORDS, 5_000)
    found: dict[str, dict[str, float] | None] = {}
    for name, of_each, kind, subject in CASES:
        found[name] = released(records, of_each, kind, subject)
        results.row(f"{records:,} records of five columns, k = {K}", subjects=name, **(found[name] or {}))
    plain, one = found["no subject"], found[ONE_RECORD]
    for figure, limit in (
        ("CPU s", MOST_CPU),
        ("information loss %", MOST_LOSS),
        ("peak RSS GB", MOST_MEMORY),
    ):
        share = one[figure] / plain[figure] if one and plain else None
        results.bar(f"a subject of one record each: {figure} / without subject", share, limit)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
