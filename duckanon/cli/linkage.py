"""``duckanon linkage``: how many records of the original an attacker finds in its release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.codes import PASSED
from duckanon.cli.flags import policy_of_flags, read_flags, read_names
from duckanon.cli.options import (
    DocumentOptions,
    QuasiIdentifiers,
    Table,
    Trees,
    check_output,
    deliver,
    documenting,
)
from duckanon.errors import PolicyError
from duckanon.evaluation.columns import has_column
from duckanon.evaluation.definetti import Definetti, definetti_attack
from duckanon.evaluation.linkage import Linkage, attacked
from duckanon.evaluation.prepare import SAMPLE, Attack, Interval, Sides
from duckanon.policy.policy import hierarchy_names
from duckanon.release.tables import SECOND_ENDING


@documenting
def linkage(
    original: Table,
    release: Table,
    qi: QuasiIdentifiers = None,
    subset: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="columns an attacker knows; repeated: another one"),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="columns to be disclosed; default: --qi; may be repeated"),
    ] = None,
    percent: Annotated[float, typer.Option(help="half the width of the interval of disclosure")] = 5.0,
    interval: Annotated[str, typer.Option(help="of what: range, rank or sd")] = "range",
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN,...",
            help="of release = 'anatomy' or 'swap': guess these, by what the classes tell (deFinetti attack)",
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="column of both tables that tells who is who")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="policy of the release (TOML): with --id, computes who is who")
    ] = None,
    hierarchies: Trees = None,
    sample: Annotated[int, typer.Option(help="records of the original that are linked")] = SAMPLE,
    seed: Annotated[int, typer.Option(help="draws another sample")] = 0,
    *,
    asked: DocumentOptions,
) -> int:
    """Attack a release: link the records of its original to it, and count who is found."""
    applied = None if policy is None else policy_of_flags({}, policy)
    given = read_flags({"hierarchies": hierarchies}).get("hierarchies")
    trees = (*(hierarchy_names(applied) if applied else ()), *(given or {}).values())
    check_output(asked.output, original, release, policy, *trees)
    attack = Attack(
        quasi_identifiers=_quasi(qi),
        subsets=None if subset is None else [read_names("--subset", [one]) for one in subset],
        columns=None if columns is None else read_names("--columns", columns),
        percent=percent,
        interval=cast("Interval", interval),
        id=id_column,
        policy=applied,
        hierarchies=given,
        sample=sample,
        seed=seed,
    )
    wanted = None if sensitive is None else read_names("--sensitive", sensitive)
    second = files.beside(release, SECOND_ENDING)
    with progress.shown(sys.stderr), files.opened(original, release, *trees, trust=asked.trust) as con:
        before, after = (
            files.relation(con, name, trust=asked.trust, reading=asked.reading)
            for name in (original, release)
        )
        files.check_hierarchies(con, trees, trust=asked.trust)
        sides = Sides(before, after, original, release)
        outcome: Linkage | Definetti
        if wanted is None:
            outcome = attacked(con, sides, attack)
        else:
            whole = all(has_column(con, after, name) for name in wanted)
            beside = None if whole else files.relation(con, second, trust=asked.trust, reading=asked.reading)
            outcome = definetti_attack(
                con, sides, attack.quasi_identifiers, wanted, beside=beside, sample=sample, seed=seed
            )
    deliver(outcome.to_json() if asked.form == "json" else outcome.to_text(), asked.output)
    return PASSED


def _quasi(given: list[str] | None) -> list[str]:
    if given is None:
        raise PolicyError("--qi is missing: name the quasi-identifiers, as in --qi age,zip")
    return read_names("--qi", given)
