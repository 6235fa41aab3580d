"""The command ``anonymize``: file to file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckanon.api import files
from duckanon.api.execute import Outcome
from duckanon.audits.html.charts import required
from duckanon.audits.html.report import html_report
from duckanon.cli.completion import of_file
from duckanon.cli.documents import deliver, show
from duckanon.cli.flags import policy_of_flags
from duckanon.cli.options import FILES, OF_POLICY, SOURCES, Option, command
from duckanon.cli.output import PASSED
from duckanon.database import paths, sources, templates
from duckanon.database.csv_files import Csv, written
from duckanon.database.csv_form import Reading
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import Target, relation_of
from duckanon.errors import PolicyError, ReleaseError
from duckanon.policy.checks import checked
from duckanon.policy.names import fold
from duckanon.policy.policy import hierarchy_names
from duckanon.release.destination import check_beside
from duckanon.release.explain import explain
from duckanon.release.export import check_target, export, files_of
from duckanon.release.source import Source
from duckanon.release.views import create

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.database.csv_files import Rewritten
    from duckanon.policy.policy import Policy


@command(
    *(name for name in OF_POLICY if name != "suppressed"),
    "policy", "csv_formulas", "dry_run", "effect", "form", *FILES,
    overwrite=Option("replace OUT, and the files of --report and --evidence, where they exist", kind=bool),
    report=Option(
        "also an HTML report of the release and its source", (), "none", "--report report.html", "FILE", Path
    ),
    evidence=Option(
        "also a JSON file with the evidence for duckanon verify", (), "none; Parquet and .duckdb hold it",
        "--evidence released.csv.json", "FILE", Path,
    ),
    examples=(
        "duckanon anonymize patients.csv released.csv --qi age,zip --identifiers name --insensitive '*' -k 5",
        "duckanon anonymize hospital.duckdb:visits out.parquet --policy release.toml -t charge=0.15",
    ),
)  # fmt: skip
def anonymize(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help=SOURCES, autocompletion=of_file),
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="a new .csv, .parquet, or file.duckdb:table")],
    *,
    flags: dict[str, Any],
    policy: Path | None,
    csv_formulas: str | None,
    dry_run: bool,
    effect: bool,
    overwrite: bool,
    report: Path | None,
    evidence: Path | None,
    form: str,
    reading: Reading,
    trust: bool,
) -> int:
    """Release a file or table as a new file."""
    release_policy = policy_of_flags(flags, policy)
    path, table = paths.split(target)
    if target == sources.STDIN:
        raise ReleaseError(
            "a release is audited as a file: give OUT a name, or use duckanon stream for a pipe"
        )
    trees = hierarchy_names(release_policy)
    asked: dict[str, Any] = {"overwrite": overwrite}
    if csv_formulas is not None:
        asked["csv_formulas"] = checked("csv_formulas", csv_formulas)
    if evidence is not None:
        asked["evidence"] = str(evidence)
    if not dry_run:
        _check_unread([path, report, evidence], [source, policy, *trees])
        check_target(path, release_policy.release, overwrite=overwrite)
        for beside, ending in ((evidence, ".json"), (report, ".html")):
            if beside is not None:
                check_beside(str(beside), ending, overwrite=overwrite)
        if report is not None:
            required()
    opened = files.opened(source, trees=trees, folders=[path.parent], trust=trust)
    with opened as con:
        read = files.source(con, source, typed=_typed(release_policy), trust=trust, reading=reading)
        _check_unnamed(read, release_policy)
        texts = _written(con, read, release_policy) if path.suffix.lower() == ".csv" else {}
        rows = read.relation if isinstance(read, Csv) else read
        query = templates.render("relation.sql.j2:rows", relation=rows)
        files.check_hierarchies(con, trees, trust=trust)
        if dry_run:
            show(Outcome("plan", explain(con, Source(query, "memory", "main"), release_policy)), form)
            return PASSED
        name = Target("memory", "main", table or path.stem)
        # Interruptible separately: the view in memory is not yet the file that the user asked for.
        proof = evidence is not None or path.suffix.lower() != ".csv"
        made = interruptible(create)(con, query, release_policy, name, effect=effect, only=True, proof=proof)
        page = None
        if report is not None:
            released, before = relation_of(name), rows if release_policy.release == "table" else None
            page = html_report(con, released, made.report, release_policy, original=before)
        audit = interruptible(export)(con, name, str(path), written=texts, just_made=True, **asked)
    if page is not None:
        deliver(page, report)
    # The audit is of the file. Measures that its rows do not show are taken from CREATE.
    known = {measure.measure for measure in audit.measures}
    others = tuple(measure for measure in made.report.measures if measure.measure not in known)
    full = replace(audit, measures=audit.measures + others, plan=made.report.plan)
    also = [file for file in (evidence, report) if file is not None]
    written = " and ".join(str(file) for file in (*files_of(path, release_policy.release), *also))
    show(Outcome(f"wrote {written}", None, full, effect=made.effect), form)
    return PASSED


def _check_unread(written: Sequence[Path | None], read: Sequence[str | Path | None]) -> None:
    """Raise if a file that the command writes is one that it reads."""
    names = [str(name) for name in read if name is not None]
    inputs = [path for name in names for path in sources.named(name)]
    for file in filter(None, written):
        if any(one.exists() and file.exists() and file.samefile(one) for one in inputs):
            raise ReleaseError(f"{str(file)!r} is read by this command: give another file")
        within = next((name for name in names if sources.covers(name, file)), None)
        if within is not None:
            raise ReleaseError(f"{str(file)!r} would be one of the files of {within!r}: give another file")


def _typed(policy: Policy) -> tuple[str, ...]:
    """Columns that need their natural type, since they are recoded, measured or counted."""
    return (*policy.quasi_identifiers, *policy.sensitive, *policy.subject)


def _written(con: duckdb.DuckDBPyConnection, read: Csv | str, policy: Policy) -> dict[str, Rewritten]:
    """Form in the source CSV of the values of columns that are not recoded."""
    if not isinstance(read, Csv):
        return {}
    recoded = {fold(name) for name in policy.quasi_identifiers if policy.release == "table"}
    return written(con, read, [name for name in read.rewritten if fold(name) not in recoded])


def _check_unnamed(read: Csv | str, policy: Policy) -> None:
    """Raise if `insensitive = *` would release a column without a name, which is usually a record number."""
    named = {fold(name) for name in (*_typed(policy), *policy.identifiers)}
    left = [name for name in (read.unnamed if isinstance(read, Csv) else ()) if fold(name) not in named]
    if left and policy.insensitive == "*":
        raise PolicyError(
            f"--insensitive '*' would release {left[0]!r}, which has no name in the file: give it a role, as "
            f"--identifiers {left[0]} to drop it"
        )
