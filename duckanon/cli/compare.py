"""The commands that attack or measure a release beside its original: ``compare`` and ``linkage``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast, get_args

from duckanon.api import files
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.flags import given_names, policy_of_flags, read_flags, read_names, read_text
from duckanon.cli.options import DOCUMENT, OF_POLICY, Option, Table, command
from duckanon.cli.output import PASSED
from duckanon.database.csv_form import Reading
from duckanon.errors import SourceError
from duckanon.evaluation.columns import has_column
from duckanon.evaluation.definetti import Definetti, definetti_attack
from duckanon.evaluation.linkage import Linkage, attacked
from duckanon.evaluation.prepare import SAMPLE, Attack, Interval, Sides
from duckanon.evaluation.workload import compared, read_queries
from duckanon.policy.policy import hierarchy_names
from duckanon.release.tables import SECOND_ENDING


@command(
    *DOCUMENT,
    queries=Option(
        "SELECT statements over a relation called data; - for stdin", (), "required", "--queries report.sql",
        "FILE", Path,
    ),
    examples=(
        "duckanon compare patients.csv released.csv --queries report.sql",
        "duckanon compare hospital.duckdb:visits released.parquet --queries - --format json < report.sql",
    ),
)  # fmt: skip
def compare(
    original: Table,
    release: Table,
    *,
    queries: Path | None,
    form: str,
    output: Path | None,
    reading: Reading,
    trust: bool,
) -> int:
    """Run your queries on a table and on its release.

    Every query is an aggregate, and its error is reported.
    """
    check_output(output, original, release, queries)
    if queries is None:
        raise SourceError(
            "--queries is missing: give a file of SELECT statements over a relation called data"
        )
    statements = read_queries(read_text(queries, "queries", error=SourceError))
    with files.opened(original, release, trust=trust) as con:
        before, after = (
            files.relation(con, name, trust=trust, reading=reading) for name in (original, release)
        )
        workload = compared(con, (before, after), (original, release), statements, alone=True)
    deliver(workload.to_json() if form == "json" else workload.to_text(), output)
    return PASSED


@command(
    "quasi_identifiers", "sensitive", "hierarchies", *DOCUMENT,
    quasi_identifiers=OF_POLICY["quasi_identifiers"]._replace(default="required"),
    sensitive=OF_POLICY["sensitive"]._replace(
        meaning="guess these columns of release = 'anatomy' or 'swap' by what classes tell (deFinetti attack)"
    ),
    subset=Option(
        "columns an attacker knows; repeated: another set", (), "sets of --qi",
        "--subset age,zip --subset age,sex", "COLUMN,...", list,
    ),
    columns=Option("columns to be disclosed", (), "those of --qi", "--columns age", "COLUMN,...", list),
    percent=Option(
        "half the width of the interval of disclosure", (), "5", "--percent 1", "NUMBER", float, 5.0
    ),
    interval=Option("what --percent is of", get_args(Interval), "range", value="range"),
    id=Option("column of both tables that says who is who", (), "none", "--id patient_id", "COLUMN"),
    policy=Option(
        "policy of the release (TOML); with --id, it computes who is who", (), "none",
        "--policy release.toml", "FILE", Path,
    ),
    sample=Option(
        "records of the original that are linked", (), str(SAMPLE), "--sample 1000", "NUMBER", int, SAMPLE
    ),
    seed=OF_POLICY["seed"]._replace(meaning="seed of the sample", value=0),
    examples=(
        "duckanon linkage patients.csv released.csv --qi age,zip",
        "duckanon linkage patients.csv released.csv --qi age,zip --id patient --policy release.toml",
    ),
)  # fmt: skip
def linkage(
    original: Table,
    release: Table,
    *,
    flags: dict[str, Any],
    subset: list[str] | None,
    columns: list[str] | None,
    percent: float,
    interval: str,
    id: str | None,  # noqa: A002 - the name of the option
    policy: Path | None,
    sample: int,
    form: str,
    output: Path | None,
    reading: Reading,
    trust: bool,
) -> int:
    """Attack a release, and count who is found.

    The records of its original are linked to it.
    """
    applied = None if policy is None else policy_of_flags({}, policy)
    given = read_flags({"hierarchies": flags["hierarchies"]}).get("hierarchies")
    trees = (*(hierarchy_names(applied) if applied else ()), *(given or {}).values())
    check_output(output, original, release, policy, *trees)
    attack = Attack(
        quasi_identifiers=given_names(flags, "quasi_identifiers"),
        subsets=None if subset is None else [read_names("--subset", [one]) for one in subset],
        columns=None if columns is None else read_names("--columns", columns),
        percent=percent,
        interval=cast("Interval", interval),
        id=id,
        policy=applied,
        hierarchies=given,
        sample=sample,
        seed=flags["seed"],
    )
    wanted = read_flags({"sensitive": flags["sensitive"]}).get("sensitive")
    second = files.beside(release, SECOND_ENDING)
    beside_it = [second] if wanted is not None and Path(second).is_file() else []
    with files.opened(original, release, *beside_it, trees=trees, trust=trust) as con:
        before, after = (
            files.relation(con, name, trust=trust, reading=reading) for name in (original, release)
        )
        files.check_hierarchies(con, trees, trust=trust)
        sides = Sides(before, after, original, release)
        outcome: Linkage | Definetti
        if wanted is None:
            outcome = attacked(con, sides, attack)
        else:
            whole = all(has_column(con, after, name) for name in wanted)
            beside = None if whole else files.relation(con, second, trust=trust, reading=reading)
            outcome = definetti_attack(
                con, sides, attack.quasi_identifiers, wanted, beside=beside, sample=sample, seed=flags["seed"]
            )
    deliver(outcome.to_json() if form == "json" else outcome.to_text(), output)
    return PASSED
