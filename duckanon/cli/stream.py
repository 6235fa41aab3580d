"""The command ``stream``: anonymize tuples from a file or pipe to another, class by class."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.flags import flag, given_names, read_flags
from duckanon.cli.options import OF_POLICY, SHARED, SOURCES, Option, command
from duckanon.cli.output import ERROR, PASSED, VIOLATION, complain, note
from duckanon.database import engine, sources, templates
from duckanon.database.csv_files import Csv
from duckanon.database.csv_form import AS_FOUND, Reading
from duckanon.database.interrupts import interruptible, terminable
from duckanon.database.paths import check_local, check_unpacked, open_plain, split
from duckanon.errors import DuckanonError, PolicyError, ReleaseError
from duckanon.streams import feed
from duckanon.streams.output import Writer, created, guarded, passing
from duckanon.streams.policy import Cluster, Method, Reference, stream_options
from duckanon.streams.report import check_new, keep, with_evidence_of_file
from duckanon.streams.stream import AnonymizedStream
from duckanon.streams.tables import batches_of
from duckanon.streams.texts import SNIFFED_TUPLES, csv_batches, json_batches, with_nulls_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from duckanon.streams.report import StreamReport
    from duckanon.streams.texts import Form

_FORMS: dict[str, Form] = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
_OF_NUMBERS = {"mean", "median", "range"}
_BY_COLUMN = ("recode", "weights", "distance", "hierarchies")


_BEGIN_BYTES = 4096
"""Bytes of a JSON file that tell whether it is an array."""

_NUMBER = Option("", (), "none", "", "NUMBER", int)


@command(
    "quasi_identifiers", "k", "subject", "sensitive", "t", "l", "l_diversity", "c", "alpha", "distance",
    "identifiers", "recode", "min_values", "digits", "weights", "hierarchies", "nulls", "method", "form",
    quasi_identifiers=OF_POLICY["quasi_identifiers"]._replace(default="required"),
    k=OF_POLICY["k"]._replace(
        meaning="tuples of a class, each of another subject, at least 2", default="10", value=10,
        flags=("-k", "--k"), kind=int, example="-k 5", form="NUMBER",
    ),
    t=OF_POLICY["t"]._replace(example="-t 0.15 or -t charge=0.15,age=0.3"),
    nulls=OF_POLICY["nulls"]._replace(choices=("category", "error")),
    method=OF_POLICY["method"]._replace(
        meaning="way to classes", choices=get_args(Method), default="steered", value="steered"
    ),
    form=SHARED["form"]._replace(
        meaning="format of IN and OUT", choices=("csv", "jsonl"), default="by their endings, csv for pipes",
        value=None,
    ),
    delay=_NUMBER._replace(
        meaning="most tuples that come before one is written", default="100", example="--delay 500", value=100
    ),
    order_weight=Option(
        "weight of the place in the stream in distances", (), "0", "--order-weight 0.5", "NUMBER", float, 0.0
    ),
    reference=Option("tuples from which t is measured", get_args(Reference), "all"),
    window=_NUMBER._replace(
        meaning="size of --reference window", default="10 (delay + 1)", example="--window 5000"
    ),
    scale=Option(
        "ends of the range of a column", (), "those of the first tuples", "--scale age=0:120",
        "COLUMN=LOW:HIGH,...", list,
    ),
    warm_up=_NUMBER._replace(
        meaning="first tuples, from which types and ranges are read", default="delay + 1",
        example="--warm-up 50",
    ),
    cluster=Option("how method steered fills a class", get_args(Cluster), "nearest", value="nearest"),
    clusters=_NUMBER._replace(
        meaning="largest number of open clusters of method castle", default="50", example="--clusters 20"
    ),
    recent=_NUMBER._replace(
        meaning="last classes whose mean loss limits clusters of method castle", default="100",
        example="--recent 20",
    ),
    read=SHARED["read"], dateformat=SHARED["dateformat"], null=SHARED["null"],
    class_id=Option("number the classes in a column", kind=bool),
    follow=Option("wait for more at the end, until Ctrl-C", kind=bool),
    report=Option(
        "a new file for the evidence", (), "OUT.json, none for stdout", "--report proof.json", "FILE", Path
    ),
    examples=(
        "duckanon stream visits.csv released.csv --qi age,zip -k 10 --delay 100 --subject patient",
        "tail -n +1 -f visits.csv | duckanon stream --qi age,zip --identifiers name > released.csv",
    ),
)  # fmt: skip
def stream(
    source: Annotated[str, typer.Argument(metavar="[IN]", help=SOURCES)] = "-",
    target: Annotated[str, typer.Argument(metavar="[OUT]", help="a new .csv or .jsonl; - is stdout")] = "-",
    *,
    flags: dict[str, Any],
    form: str | None,
    follow: bool,
    report: Path | None,
    scale: list[str] | None,
    reading: Reading,
    **own: Any,
) -> int:
    """Anonymize a stream, in classes of k within a delay.

    A class of k leaves as soon as a tuple has waited for its delay.
    """
    given_names(flags, "quasi_identifiers")
    by_column = read_flags({"scale": scale, **{name: flags[name] for name in _BY_COLUMN}})
    for name, values in by_column.items():
        if not isinstance(values, dict):
            raise PolicyError(f"{flag(name)} takes column=value pairs, not {values!r}")
    options = {**own, **read_flags(flags), **by_column, "scale": _scale(by_column.get("scale", {}))}
    job = _job(source, target, options, form, report, follow=follow, reading=reading)
    done = _Done()
    try:
        _run(job, done)
    except KeyboardInterrupt:
        done.tell("interrupted: ")
        if not follow:
            return ERROR
        # --follow always ends by Ctrl-C, and the evidence written until then is valid.
    return _prove(job, done)


@dataclass(frozen=True)
class _Job:
    """Files of a stream (None is a standard stream), their formats, and the options of the stream."""

    source: Path | None  # a plain file that is read from its begin to its end
    other: str | None  # any other source
    target: Path | None
    forms: tuple[Form, Form]
    options: dict[str, Any]
    report: Path | None
    follow: bool
    reading: Reading


def _job(
    source: str,
    target: str,
    options: dict[str, Any],
    form: str | None,
    report: Path | None,
    *,
    follow: bool,
    reading: Reading,
) -> _Job:
    """Check the arguments before any file is opened."""
    for name in (target, report):
        if name is not None:
            check_local(name)
    other = source if reading != AS_FOUND or _is_stored(source) else None
    read = None if source == "-" or other is not None else Path(source)
    out = None if target == "-" else Path(target)
    forms = ["csv" if other is not None else _form(read, form), _form(out, form)]
    if other is not None and out is not None and sources.covers(other, out):
        raise ReleaseError(f"{str(out)!r} would be one of the files of {other!r}: give another file")
    if out is not None and out.suffix.lower() == ".tsv":
        raise DuckanonError(f"a CSV is written with commas: give {str(out)!r} the ending .csv")
    if follow and (read is None or not read.is_file()):
        raise DuckanonError("--follow waits for more in a file: name one as IN")
    if report is None and out is not None and not passing(out):
        report = out.with_name(f"{out.name}.json")
    if report is not None:
        check_new(report)
        if out is not None and os.path.abspath(report) == os.path.abspath(out):
            raise DuckanonError("--report is the output: give another file")
    return _Job(read, other, out, (forms[0], forms[1]), options, report, follow, reading)


def _is_stored(source: str) -> bool:
    """Whether a source is read by DuckDB, since it is no pipe or plain text of records."""
    if source == "-":
        return False
    if (
        not sources.is_plain(source)
        or Path(source).suffix.lower() == ".parquet"
        or split(source)[1] is not None
    ):
        return True
    path = Path(source)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    # Records in an array have no lines of their own.
    with open_plain(path) as file:
        return file.read(_BEGIN_BYTES).lstrip()[:1] == b"["


def _form(file: Path | None, given: str | None) -> Form:
    """Format of a file by its ending, or by --format if it has none."""
    known = None if file is None else _FORMS.get(file.suffix.lower())
    if known is None and file is not None and given is None and not passing(file):
        if file.exists():
            check_unpacked(file)
        raise DuckanonError(f"{str(file)!r} ends in none of {', '.join(_FORMS)}: give --format")
    return known or ("jsonl" if given == "jsonl" else "csv")


def _scale(words: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    """Ends of ranges, separated by the middle colon; other colons belong to times."""
    found = {}
    for name, text in words.items():
        parts = text.split(":")
        if len(parts) % 2:
            raise PolicyError(f"--scale takes column=low:high pairs, not {name}={text}")
        middle = len(parts) // 2
        found[name] = (_end(":".join(parts[:middle])), _end(":".join(parts[middle:])))
    return found


def _end(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text.strip()


@dataclass
class _Done:
    """Progress of a stream."""

    writer: Writer | None = None
    made: AnonymizedStream | None = None
    waiting: int = 0  # tuples read before the types of the columns are known

    def wait(self, count: int) -> None:
        """Set the number of tuples that wait for the types."""
        self.waiting = count

    @property
    def report(self) -> StreamReport | None:
        """Report of the written output; tuples that left their class but were not written count as held."""
        if self.made is None or self.writer is None:
            return None
        report, written = self.made.report, self.writer.written
        return replace(
            report, written=written, held=report.held + report.written - written,
            classes=self.writer.classes, alone=self.writer.alone,
        )  # fmt: skip

    def tell(self, begin: str = "") -> None:
        """Print the counts of tuples on stderr, since tuples may go to stdout."""
        report = self.report
        if report is None:
            note(f"{begin}{self.waiting} tuples read: 0 written, 0 dropped, {self.waiting} held")
            return
        note(f"{begin}{report.to_text()}")


@interruptible
def _run(job: _Job, done: _Done) -> None:
    """Read and write until the end of the input; after an error the counts of tuples are printed, too."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(terminable())
        rows = None if job.other is None else _stored(stack, job, job.other)
        descriptor = feed.opened(job.source if rows is None else Path(os.devnull))
        if job.source is not None and job.source.is_file():
            sources.check_form(job.source, "csv" if job.forms[0] == "csv" else "json", str(job.source))
        if job.source is not None or rows is not None:
            stack.callback(os.close, descriptor)
        output = created(job.target, descriptor)
        if job.target is not None:
            stack.callback(os.close, output)
            if not passing(job.target):
                stack.callback(_remove_unused, job.target, done)
        con = stack.enter_context(engine.in_memory(threads=1))
        # The text of a time with a zone must not depend on the time zone of the machine.
        engine.run(
            con, templates.render("session.sql.j2:set", name="TimeZone", value="UTC", session=False), "open"
        )
        done.writer = Writer(con, output, job.forms[1], stack.enter_context(guarded(output)))
        try:
            done.made = stack.enter_context(
                AnonymizedStream(_batches(con, job, descriptor, done, rows), stream_options(job.options))
            )
            _copy(done.made, done.writer)
        except BrokenPipeError as closed:
            done.tell()
            raise DuckanonError("nobody reads the output any more") from closed
        except Exception:
            if done.made is not None:
                done.tell()
            raise
    done.tell()


def _remove_unused(target: Path, done: _Done) -> None:
    """Remove the output file of a stream that never knew its columns, so that the command can be repeated."""
    if done.made is None:
        target.unlink(missing_ok=True)


def _stored(stack: contextlib.ExitStack, job: _Job, name: str) -> Iterator[pa.RecordBatch]:
    """Rows, in their order, of a source that DuckDB reads."""
    # Values in other columns than these leave as the file has them.
    typed = {*job.options["quasi_identifiers"], *job.options.get("subject", ()), *_guarded(job.options)}
    typed |= _numbers(job.options)
    con = stack.enter_context(files.opened(name))
    read = files.source(con, name, typed=typed, reading=job.reading)
    return batches_of(con, read.only_typed(typed) if isinstance(read, Csv) else read)


def _numbers(options: Mapping[str, Any]) -> set[str]:
    """Columns that hold numbers or times, by the options."""
    asked = {name for name, rule in options.get("recode", {}).items() if rule in _OF_NUMBERS}
    return asked | set(options["scale"])


def _guarded(options: Mapping[str, Any]) -> Sequence[str]:
    """Columns with thresholds, which classes must keep in the file: values with one text are one value."""
    return options["sensitive"] if {"t", "l", "alpha"} & options.keys() and "sensitive" in options else ()


def _batches(
    con: duckdb.DuckDBPyConnection,
    job: _Job,
    descriptor: int,
    done: _Done,
    rows: Iterator[pa.RecordBatch] | None,
) -> Iterator[pa.RecordBatch]:
    options = job.options
    guarded = _guarded(options)
    if rows is not None:
        return (with_nulls_of(batch, job.forms[1], guarded) for batch in rows)
    warm_up = options["delay"] + 1 if options["warm_up"] is None else options["warm_up"]
    whole = not job.follow and job.source is not None and job.source.is_file()
    chunks = feed.chunks(descriptor, job.source if job.follow else None)
    read = csv_batches if job.forms[0] == "csv" else json_batches
    first = max(warm_up, SNIFFED_TUPLES) if whole else max(warm_up, 1)
    numbers = _numbers(options)
    batches: Iterator[pa.RecordBatch]
    if job.forms == ("csv", "csv"):
        # Columns that are neither recoded nor measured are copied as text.
        typed = {*options["quasi_identifiers"], *options.get("subject", ()), *guarded, *numbers}
        batches = csv_batches(con, chunks, first=first, numbers=numbers, waiting=done.wait, typed=typed)
    else:
        batches = read(con, chunks, first=first, numbers=numbers, waiting=done.wait)
    return (with_nulls_of(batch, job.forms[1], guarded) for batch in batches)


def _copy(made: AnonymizedStream, writer: Writer) -> None:
    writer.begin(made.schema)
    with progress.step("anonymizing", unit="tuples") as step:
        read = 0
        for part in made.parts():
            writer.write(part)
            now = made.report.read
            step.advance(now - read)
            read = now


@interruptible
def _prove(job: _Job, done: _Done) -> int:
    """Audit the written file and write the report, if --report is given; return the exit code."""
    report, writer = done.report, done.writer
    if job.report is None or report is None or writer is None:
        return PASSED
    if job.target is not None and report.written and not passing(job.target):
        policy = stream_options(job.options)
        report = with_evidence_of_file(report, job.target, writer.form, writer.columns, policy)
    keep(report.to_json(), job.report)
    if report.audit is not None and report.audit.violated:
        complain(report.audit.to_text())
        return VIOLATION
    return PASSED
