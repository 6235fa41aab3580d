"""The commands ``spark anonymize`` and ``spark audit``, which work on DataFrames of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckanon.api.execute import Outcome
from duckanon.cli.codes import PASSED, VIOLATION
from duckanon.cli.flags import policy_of_flags, read_flags, read_text
from duckanon.cli.options import (
    K,
    L,
    LDiversity,
    Names,
    Number,
    Numbers,
    PolicyFile,
    QuasiIdentifiers,
    T,
    Words,
    known_form,
)
from duckanon.cli.outcomes import show
from duckanon.cli.output import line
from duckanon.cli.parsing import Command, Group
from duckanon.database.interrupts import interruptible
from duckanon.errors import PolicyError
from duckanon.policy.policy import AuditPolicy, Policy

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ("parquet", "orc", "csv", "json")

Source = Annotated[str, typer.Argument(metavar="IN", help="a file or folder that Spark reads")]
Master = Annotated[str | None, typer.Option(help="as local[4] or yarn; else as the configuration says")]
Form = Annotated[str | None, typer.Option("--format", help=f"{' | '.join(FORMS)}; else by the ending")]

spark = typer.Typer(
    name="spark",
    cls=Group,
    help="Release or audit where Spark runs, for data that outgrow one machine.",
    add_completion=False,
    rich_markup_mode=None,
)


def anonymize(
    source: Source,
    target: Annotated[str, typer.Argument(metavar="OUT", help="a new folder, of Parquet files")],
    qi: QuasiIdentifiers = None,
    sensitive: Names = None,
    identifiers: Names = None,
    insensitive: Names = None,
    k: K = None,
    t: T = None,
    l: L = None,  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = None,
    c: Number = None,
    distance: Words = None,
    recode: Words = None,
    min_values: Annotated[int | None, typer.Option(help="values of a class that a mean is of; k")] = None,
    digits: Numbers = None,
    weights: Numbers = None,
    suppression_limit: Number = None,
    nulls: Annotated[str | None, typer.Option(help="category, suppress or error")] = None,
    effort: Annotated[str | None, typer.Option(help="fast, balanced or best: how much to refine")] = None,
    policy: PolicyFile = None,
    form: Form = None,
    master: Master = None,
) -> int:
    """Release a file or folder as a new folder of Parquet files."""
    flags: dict[str, Any] = {
        "quasi_identifiers": qi, "sensitive": sensitive, "identifiers": identifiers,
        "insensitive": insensitive, "k": k, "t": t, "l": l, "l_diversity": l_diversity, "c": c,
        "distance": distance, "recode": recode, "weights": weights, "nulls": nulls, "effort": effort,
        "suppression_limit": suppression_limit, "min_values": min_values, "digits": digits,
    }  # fmt: skip
    asked = policy_of_flags(flags, policy)
    from duckanon.spark import anonymize as release
    from duckanon.spark.session import frame

    made = release(frame(source, _form(source, form), master), asked, path=target)
    left_out = made.evidence["suppressed"]
    title = f"wrote {target}" + (f", without {left_out:,} suppressed records" if left_out else "")
    show(Outcome(title, None, made.report))
    return PASSED


def audit(
    source: Source,
    qi: QuasiIdentifiers = None,
    sensitive: Names = None,
    k: K = None,
    t: T = None,
    l: L = None,  # noqa: E741 - as above
    l_diversity: LDiversity = None,
    c: Number = None,
    distance: Words = None,
    policy: PolicyFile = None,
    form: Form = None,
    master: Master = None,
) -> int:
    """Audit a file or folder; exit code 1 when it violates a threshold."""
    flags: dict[str, Any] = {
        "quasi_identifiers": qi, "sensitive": sensitive, "k": k, "t": t, "l": l, "l_diversity": l_diversity,
        "c": c, "distance": distance,
    }  # fmt: skip
    asked = _audited(flags, policy)
    from duckanon.spark import audit as audited
    from duckanon.spark.session import frame

    report = audited(frame(source, _form(source, form), master), asked, name=source)
    line(report.to_text())
    return VIOLATION if report.violated else PASSED


def _audited(flags: dict[str, Any], file: Path | None) -> AuditPolicy:
    """Return the policy of the audit, from the flags or from a policy file whose options flags replace."""
    given = read_flags(flags)
    if file is not None:
        return Policy.from_toml(read_text(file, "policy", error=PolicyError), **given).audited()
    if "quasi_identifiers" not in given:
        raise PolicyError("--qi is missing: give --qi, or a --policy file")
    return AuditPolicy(**given)


def _form(source: str, given: str | None) -> str:
    """Return the format of a source, as given or by its ending."""
    if given is not None:
        return known_form(given, FORMS)
    ending = source.rstrip("/").rpartition(".")[2].lower()
    return ending if ending in FORMS else "parquet"


for _command in (anonymize, audit):
    spark.command(cls=Command)(interruptible(_command))
