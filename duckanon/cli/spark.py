"""The commands ``spark anonymize`` and ``spark audit``, which work on DataFrames of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from duckanon.api.execute import Outcome
from duckanon.cli.documents import known_form, show
from duckanon.cli.flags import from_policy_file, policy_of_flags, read_flags, require
from duckanon.cli.options import OF_AUDIT, SHARED, Option, command
from duckanon.cli.output import PASSED, VIOLATION, line
from duckanon.cli.parsing import Command, Group, epilog
from duckanon.database.interrupts import interruptible
from duckanon.policy.policy import AuditPolicy, Policy

FORMS = ("parquet", "orc", "csv", "json")

Source = Annotated[str, typer.Argument(metavar="IN", help="a file or folder that Spark reads")]
_SOURCE_FORM = SHARED["form"]._replace(
    meaning="format of IN", choices=FORMS, default="by its ending, parquet without one", value=None
)
_RESULT = SHARED["form"]._replace(flags=("--result",))
_MASTER = Option("master of Spark", (), "as its configuration says", "--master local[4]", "URL")

_EXAMPLES = (
    "duckanon spark anonymize visits.parquet released --qi age,zip --sensitive charge -k 5 -t 0.15",
    "duckanon spark audit released --qi age,zip --sensitive charge -k 5",
)

spark = typer.Typer(
    name="spark",
    cls=Group,
    help="Release or audit where Spark runs.",
    epilog=epilog(*_EXAMPLES),
    add_completion=False,
    rich_markup_mode=None,
)


@command(
    *OF_AUDIT, "identifiers", "insensitive", "recode", "min_values", "digits", "weights", "suppression_limit",
    "nulls", "effort", "policy", "form",
    form=_SOURCE_FORM,
    master=_MASTER,
    result=_RESULT,
    examples=(_EXAMPLES[0], "duckanon spark anonymize hdfs:///visits out --policy p.toml --master yarn"),
)  # fmt: skip
def anonymize(
    source: Source,
    target: Annotated[str, typer.Argument(metavar="OUT", help="a new folder, of Parquet files")],
    *,
    flags: dict[str, Any],
    policy: Path | None,
    form: str | None,
    master: str | None,
    result: str,
) -> int:
    """Release a file or folder as a new folder of Parquet files."""
    asked = policy_of_flags(flags, policy)
    from duckanon.spark import anonymize as release
    from duckanon.spark.session import frame

    made = release(frame(source, _form(source, form), master), asked, path=target)
    left_out = made.evidence["suppressed"]
    title = f"wrote {target}" + (f", without {left_out:,} suppressed records" if left_out else "")
    show(Outcome(title, None, made.report), result)
    return PASSED


@command(
    *OF_AUDIT, "policy", "form",
    form=_SOURCE_FORM,
    master=_MASTER,
    result=_RESULT,
    examples=(_EXAMPLES[1], "duckanon spark audit released --policy release.toml --master local[4]"),
)  # fmt: skip
def audit(
    source: Source,
    *,
    flags: dict[str, Any],
    policy: Path | None,
    form: str | None,
    master: str | None,
    result: str,
) -> int:
    """Audit a file or folder; exit code 1 when it violates a threshold."""
    asked = _audited(flags, policy)
    from duckanon.spark import audit as audited
    from duckanon.spark.session import frame

    report = audited(frame(source, _form(source, form), master), asked, name=source)
    line(report.to_json() if result == "json" else report.to_text())
    return VIOLATION if report.violated else PASSED


def _audited(flags: dict[str, Any], file: Path | None) -> AuditPolicy:
    """Return the policy of the audit, from the flags or from a policy file whose options flags replace."""
    given = read_flags(flags)
    if file is not None:
        return from_policy_file(file, Policy.from_toml, given).audited()
    require(given, "quasi_identifiers", file=True)
    return AuditPolicy(**given)


def _form(source: str, given: str | None) -> str:
    """Return the format of a source, as given or by its ending."""
    if given is not None:
        return known_form(given, FORMS)
    ending = source.rstrip("/").rpartition(".")[2].lower()
    return ending if ending in FORMS else "parquet"


for _command in (anonymize, audit):
    spark.command(cls=Command, epilog=vars(_command)["epilog"])(interruptible(_command))
