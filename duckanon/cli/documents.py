"""What a command prints or writes: outcomes of statements and documents, as text or as JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, replace
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.api.execute import Outcome
from duckanon.audits.legible import legible
from duckanon.audits.report import text_table
from duckanon.cli.output import line
from duckanon.database import drafts, paths, sources
from duckanon.database.interrupts import interruptible, settle, wrote
from duckanon.errors import DuckanonError
from duckanon.policy.names import suggestion
from duckanon.release.effect import effect_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_IN_JSON = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN|VARCHAR|JSON")
"""Types of DuckDB whose values a document of JSON holds as they are."""


def show(outcome: Outcome | duckdb.DuckDBPyRelation | None, form: str = "text") -> None:
    """Print the outcome of one statement: report and rows of ours, rows of a query, or nothing."""
    if outcome is None:
        return
    if form == "json":
        line(json.dumps(_document(outcome), allow_nan=False))
        return
    if not isinstance(outcome, Outcome):
        line(str(outcome).rstrip())
        return
    line(f"-- {legible(outcome.title)}")
    if outcome.report is not None:
        # Warnings were already printed to stderr.
        line(replace(outcome.report, warnings=()).to_text())
        if outcome.effect:
            line(f"\neffect on the {outcome.effect[0].records} released records:")
            line(effect_text(outcome.effect))
    elif outcome.table is not None:
        rows = list(zip(*outcome.table.to_pydict().values(), strict=True))
        line("\n".join(text_table(outcome.table.column_names, rows)))


def show_rows(names: Sequence[str], rows: Iterable[Sequence[object]], form: str) -> None:
    """Print rows as a table, or as an array of JSON."""
    if form == "json":
        line(json.dumps(_rows(names, rows), indent=2, allow_nan=False))
    else:
        line("\n".join(text_table(names, list(rows))))


def _document(outcome: Outcome | duckdb.DuckDBPyRelation) -> dict[str, object]:
    """Title, report and rows of an outcome as JSON takes them."""
    if not isinstance(outcome, Outcome):
        return {"rows": _rows(outcome.columns, _values(outcome))}
    found: dict[str, object] = {"title": outcome.title}
    if outcome.report is not None:
        found["report"] = json.loads(outcome.report.to_json())
        if outcome.effect:
            found["effect"] = [asdict(one) for one in outcome.effect]
    elif outcome.table is not None:
        found["rows"] = _rows(
            outcome.table.column_names, zip(*outcome.table.to_pydict().values(), strict=True)
        )
    return found


def _values(relation: duckdb.DuckDBPyRelation) -> list[tuple[object, ...]]:
    """Rows of a relation; types that JSON lacks are texts, as the stock command line prints them."""
    other = {place for place, kind in enumerate(relation.types) if not _IN_JSON.fullmatch(str(kind))}
    if not other:
        return relation.fetchall()
    columns = [duckdb.ColumnExpression(name) for name in relation.columns]
    shown = [
        duckdb.FunctionExpression("to_json", column).cast("VARCHAR").alias(name) if place in other else column
        for place, (name, column) in enumerate(zip(relation.columns, columns, strict=True))
    ]
    return [
        tuple(
            json.loads(value, parse_float=Decimal) if place in other and value is not None else value
            for place, value in enumerate(row)
        )
        for row in relation.select(*shown).fetchall()
    ]


def _rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    return [dict(zip(names, map(_plain, row), strict=True)) for row in rows]


def _plain(value: Any) -> object:
    """Value as JSON has it: a number only if JSON readers get the same number, other types as text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal) and value.is_finite() and Decimal(repr(float(value))) == value:
        return float(value)
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    return str(value)


def known_form(form: str, known: Sequence[str] = ("text", "json")) -> str:
    """Format of a document; a DuckanonError if the command does not know it."""
    if form not in known:
        hint = suggestion(form, known)
        choice = f"{', '.join(known[:-1])} or {known[-1]}"
        raise DuckanonError(f"unknown format {form!r}{hint or ':'} use {choice}")
    return form


def check_output(output: Path | None, *inputs: str | Path | None) -> None:
    """Raise, before long work, unless a document can be written to `output` (None: stdout)."""
    # The file may be no folder and no input file; inputs are named as in `hospital.duckdb:patients`.
    if output is None:
        return
    paths.check_local(output)
    for name in inputs:
        for path in [] if name is None or not output.exists() else sources.named(str(name)):
            # The write-ahead log is a part of a database.
            for file in (path, path.with_name(f"{path.name}.wal")):
                if file.exists() and output.samefile(file):
                    raise DuckanonError(f"-o {str(output)!r} is read by this command: give another file")
    folder = _target(output).parent
    if output.is_dir():
        raise DuckanonError(f"-o {str(output)!r} is a folder: give a file")
    if output.is_socket():
        raise DuckanonError(f"-o {str(output)!r} is a socket: give a file")
    if not folder.is_dir():
        raise DuckanonError(f"cannot write {str(output)!r}: the folder {str(folder)!r} does not exist")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise DuckanonError(f"cannot write {str(output)!r}: permission denied")


def deliver(text: str, output: Path | None) -> None:
    """Write a document and a newline to stdout, or to its file, which afterwards is complete or unchanged."""
    if output is None:
        line(text)
        return
    target = _target(output)
    try:
        if target.exists() and not target.is_file():
            # A pipe or a device is written to directly, since a rename would replace it.
            target.write_text(text + "\n", encoding="utf-8")
        else:
            _replace(target, text + "\n")
    except OSError as unwritten:
        raise DuckanonError(f"cannot write {str(output)!r}: {unwritten.strerror or unwritten}") from unwritten


def _target(output: Path) -> Path:
    """Return the file behind symbolic links, so that a rename replaces the file and not the link."""
    return Path(os.path.realpath(output))


@interruptible
def _replace(target: Path, text: str) -> None:
    """Write a draft in the same folder and rename it, so that the file is never half written."""
    with drafts.draft(target) as draft:
        draft.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, draft)
        settle()
        draft.replace(target)
        wrote()
