"""Record batches of a stream become anonymized record batches, class by class."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple, Self

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.database.intake import readable, register_source
from duckanon.database.objects_given import instead
from duckanon.database.relations import columns_of
from duckanon.errors import PolicyError, ReleaseError, SourceError, tell
from duckanon.kernels.steered.stream import renumber
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.names import CLASS, fold, twice
from duckanon.policy.reported import reported_figure
from duckanon.release.recoding import Recoder, fields_of, known_classes
from duckanon.release.stages.stage import subject_columns_of
from duckanon.streams.closeness import (
    ClosenessGuard,
    SensitiveValues,
    asked_of,
    with_thresholds,
)
from duckanon.streams.coordinates import Coordinates, check_scales, climbs_of
from duckanon.streams.methods import METHODS, opened
from duckanon.streams.policy import SAFE_DELAY_PER_K, StreamPolicy, check_kinds
from duckanon.streams.recoded import Encoder, OpenDigits
from duckanon.streams.report import Counts, StreamReport

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.release.stages.stage import SubjectColumn
    from duckanon.streams.methods import Departure

STAGE = "stream"

HELD_MAX_CHUNKS = 16
"""Chunks of the held tuples above which they are copied to one chunk: tuples may come one by one."""


class Part(NamedTuple):
    """A batch of whole runs: classes, and single tuples of classes that left before."""

    batch: pa.RecordBatch
    ends: NDArray[np.int64]  # (e,), row of the batch after each run
    alone: NDArray[np.bool_]  # (e,), whether the run is a single tuple


class AnonymizedStream(Iterator[pa.RecordBatch]):
    """Record batches of tuples in classes of k, as `duckanon.anonymize_stream` returns them.

    A tuple is in a batch with its whole class, or after its class. The stream is a context manager, and
    closes itself after its last batch.

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns that are written.
    report : StreamReport
        What became of the tuples so far.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], policy: StreamPolicy) -> None:
        # The rows of a table are not what its iterator gives.
        if not isinstance(batches, Iterable) or hasattr(type(batches), "columns"):
            raise _no_batches(batches)
        self._batches = iter(batches)
        self._policy = policy
        self._counts = Counts(policy.rows.k)
        with contextlib.ExitStack() as opened:
            con = opened.enter_context(engine.in_memory(threads=1))
            first = _first(batches, self._batches)
            state = _State(con, policy, first.schema, self._counts)
            self._opened = opened.pop_all()
        self.schema, self._guard = state.schema, state.guard
        safe = SAFE_DELAY_PER_K * policy.rows.k
        if policy.delay < safe:
            tell(
                f"delay = {policy.delay} is less than {SAFE_DELAY_PER_K} k = {safe}: tuples may be dropped, "
                "since too few others are held when they have to leave"
            )
        self._output = self._run(state, first)

    def __next__(self) -> pa.RecordBatch:
        """Give the next batch of whole classes."""
        return next(self._output).batch

    def parts(self) -> Iterator[Part]:
        """Give the next batches with the ends of their runs, for a writer that keeps classes whole."""
        yield from self._output

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream."""
        self.close()

    @property
    def report(self) -> StreamReport:
        """What became of the tuples so far."""
        counts = self._counts
        mse, mae, width = (
            None if one.mean is None else reported_figure(one.mean)
            for one in (counts.squares, counts.distances, counts.widths)
        )
        return StreamReport(
            counts.read, counts.written, counts.dropped, counts.read - counts.written - counts.dropped,
            dict(counts.dropped_for), counts.classes, counts.alone, counts.k, counts.largest_class,
            counts.delays.largest, counts.delays.mean, counts.moved.largest, counts.moved.mean,
            counts.spans.largest, counts.spans.mean, mse, mae, width,
            self._guard.report() if self._guard.attributes else None, self._policy.hash,
            {"duckanon": version("duckanon"), "duckdb": duckdb.__version__},
        )  # fmt: skip

    def close(self) -> None:
        """Forget the held tuples; nothing more is written."""
        self._output.close()
        self._opened.close()

    def _run(self, state: _State, first: pa.RecordBatch) -> Generator[Part]:
        """Read batch by batch, and give the classes that leave."""
        try:
            batch: pa.RecordBatch | None = first
            while batch is not None:
                yield from state.read(batch)
                batch = next(self._batches, None)
            yield from state.end()
        finally:
            self._opened.close()


def _no_batches(given: object) -> SourceError:
    how = instead(given) or "give pyarrow.table(frame).to_batches()"
    return SourceError(f"a stream is read from batches of Arrow, not from {type(given).__name__}: {how}")


def _first(given: object, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the first batch, an empty one if a reader without batches tells the columns."""
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise _no_batches(batch)
        return batch
    if isinstance(given, pa.RecordBatchReader):
        return arrow.nothing(given.schema)
    raise SourceError("the stream has no batch, not even an empty one: its columns are not known")


class _State:
    """The held tuples, and the code that reads and writes tuples."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, policy: StreamPolicy, schema: pa.Schema, counts: Counts
    ) -> None:
        self._con, self._policy, self._counts, self._input = con, policy, counts, schema
        again = twice(schema.names)
        if again is not None:
            raise SourceError(f"the stream has the column {again!r} twice: rename one")
        attributes, self._subject_columns = _bound(con, policy, schema)
        sensitive = with_thresholds(attributes)
        self._kept = [one.name for one in attributes if one.role is not Role.IDENTIFIER]
        read = readable(pa.Table.from_batches([], schema), categories=False).schema
        types = {name: read.field(name).type for name in self._kept}
        quasi = [one for one in attributes if one.role is Role.QUASI_IDENTIFIER]
        check_scales(quasi, policy)
        trees = climbs_of(con, [*quasi, *sensitive])
        climbs = {one.name: trees[one.name] for one in quasi if one.name in trees}
        self._coordinates = Coordinates(quasi, policy, climbs)
        fields = fields_of(attributes)
        tables = {one.column: climbs[one.name].table for one in fields if one.name in climbs}
        rows = policy.rows
        self._recoder = Recoder(fields, types, rows.k, rows.least_values, policy.class_id, tables)
        self._digits = OpenDigits(fields, policy.warm_up)
        self._encoder = Encoder(fields, {name: schema.field(name).type for name in self._kept})
        self._method = METHODS[policy.method]
        above = {one.name: trees[one.name] for one in sensitive if one.name in trees}
        self._sensitive = SensitiveValues(sensitive, types, above)
        self.guard = ClosenessGuard(sensitive, asked_of(sensitive, rows, above), policy.window)
        self._buffer = opened(policy, self._coordinates.dimensions, self.guard.asked)
        self.schema = self._encoder.encoded(self._recoder.empty(con)).schema
        self._waiting: list[pa.Table] = []  # tuples that are not yet in the buffer
        self._waiting_subjects: list[NDArray[np.int64]] = []
        self._rows = pa.Table.from_batches([], pa.schema(types.items()))
        self._points = np.zeros((0, self._coordinates.dimensions))
        self._subjects = np.zeros(0, np.int64)
        self._values: pa.Table | None = None  # of classes that single tuples may join later
        self._batches = 0

    def read(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """Read a batch, and give the classes that leave meanwhile."""
        self._batches += 1
        if not batch.schema.equals(self._input):
            raise SourceError(f"batch {self._batches} {_other_schema(batch.schema, self._input)}")
        table = readable(pa.Table.from_batches([batch]), categories=False)
        if not len(table):
            return
        self._encoder.learn(batch)
        subjects = self._numbers_of_subjects(table)
        self._waiting.append(table.select(self._kept))
        self._waiting_subjects.append(subjects)
        if not self._coordinates.known:
            if sum(map(len, self._waiting)) < self._policy.warm_up:
                self._counts.read = sum(map(len, self._waiting))
                return
            self._fix()
        yield from self._push()

    def end(self) -> Iterator[Part]:
        """Give the classes that leave at the end of the input."""
        if self._waiting:
            self._fix()
            yield from self._push()
        yield from self._leave(self._method.finish(self._buffer))
        for warning in self._sensitive.unseen():
            tell(warning)
        if self._counts.read and not self._counts.written:
            tell("no tuple was written: ask a smaller k, a longer delay or weaker thresholds")

    def _fix(self) -> None:
        """Take the scales from the first tuples."""
        self._coordinates.fix(self._con, pa.concat_tables(self._waiting).slice(0, self._policy.warm_up))

    def _push(self) -> Iterator[Part]:
        """Put the tuples that wait into the buffer."""
        tuples, subjects = pa.concat_tables(self._waiting), np.concatenate(self._waiting_subjects)
        self._waiting, self._waiting_subjects = [], []
        read = int(self._buffer.counts[0])
        points = self._coordinates.of(self._con, tuples, read)
        self._digits.read(tuples, read)
        codes = self._codes(tuples, read)
        self._rows = pa.concat_tables([self._rows, tuples])
        self._points = np.vstack([self._points, points])
        self._subjects = np.concatenate([self._subjects, subjects])
        given = subjects if self._subject_columns else None
        yield from self._leave(self._method.push(self._buffer, points, given, codes))

    def _codes(self, tuples: pa.Table, first: int) -> NDArray[np.int64] | None:
        """Numbers (S, m) of the sensitive values; None if the policy has no threshold on them."""
        if not self.guard.attributes:
            return None
        counts = self.guard.counts if self._policy.window else None
        learned = self._sensitive.learn(self._con, tuples, first, counts)
        if learned is not None:
            self._buffer = renumber(self._buffer, learned.places, learned.sizes, learned.known)
            self.guard.learn(learned)
        codes = self._sensitive.of(tuples)
        self.guard.read(codes)
        return codes

    def _leave(self, left: Departure) -> Iterator[Part]:
        """Give the departing tuples as a batch of whole runs, and forget them."""
        read, waiting = int(self._buffer.counts[0]), self._method.held(self._buffer)
        oldest = int(waiting[0]) if len(waiting) else read
        first = read - len(self._rows)
        places = left.positions - first
        points, subjects = self._points.take(places, axis=0), self._subjects.take(places)
        tuples = self._rows.take(arrow.arrow(places)) if len(places) else self._rows.slice(0, 0)
        keep = len(self._rows) - (oldest - first)
        self._rows = self._rows.slice(len(self._rows) - keep)
        self._points = self._points[len(self._points) - keep :].copy()
        self._subjects = self._subjects[len(self._subjects) - keep :].copy()
        if max((column.num_chunks for column in self._rows.columns), default=0) > HELD_MAX_CHUNKS:
            self._rows = self._rows.combine_chunks()
        if not len(places):
            self._counts.add(left, points, left.positions, read=read, oldest=oldest)
            self.guard.forget(read, oldest)
            return
        numbers = subjects if self._subject_columns else None
        given = self._con, tuples, left.members, self._values, numbers
        made, values, written = self._recoder.written(*given)
        roundings = self._digits.first(made, left.times[written])
        if roundings:
            self._recoder = self._recoder.rounded(roundings)
            made, values, written = self._recoder.written(*given)
        came = left.positions[written]
        outside = np.flatnonzero(np.bincount(written, minlength=len(left.positions)) == 0)
        if len(outside):
            left = left.without(outside)
            subjects, points = np.delete(subjects, outside), np.delete(points, outside, 0)
        self._check(made, left, subjects)
        if self.guard.attributes:
            self.guard.check(left, self._sensitive.of(made))
        self.guard.forget(read, oldest)
        self._values = known_classes(self._values, values, self._method.public(self._buffer))
        self._counts.add(left, points, came, read=read, oldest=oldest)
        encoded = self._encoder.encoded(made.combine_chunks())
        for batch in encoded.to_batches():  # one, or none if all tuples are outside their ranges
            yield Part(batch, np.append(left.starts[1:], len(left.positions)), left.alone[left.starts])

    def _check(self, made: pa.Table, left: Departure, subjects: NDArray[np.int64]) -> None:
        """Raise a ReleaseError unless all tuples of a run have equal values and each class has k subjects."""
        runs = left.members.runs
        heads = arrow.arrow(left.starts[runs])
        alike = all(
            made.column(one.name).take(heads).equals(made.column(one.name))
            for one in self._coordinates.attributes
        )
        first = np.ones(len(subjects), np.bool_)  # whether a tuple is the first of its subject in a class
        if self._subject_columns:
            order = np.lexsort((subjects, runs))
            first[order[1:]] = (np.diff(subjects[order]) != 0) | (np.diff(runs) != 0)
        counts = np.bincount(runs[first], minlength=len(left.starts))
        k = self._policy.rows.k
        enough = bool((left.alone[left.starts] | (counts >= k)).all())
        if len(made) != len(subjects) or not (alike and enough):
            raise ReleaseError(
                f"a class of the stream is none of k = {k} subjects whose tuples share their values: nothing "
                "of it was written; please report this"
            )

    def _numbers_of_subjects(self, table: pa.Table) -> NDArray[np.int64]:
        """Numbers (m,) of the subjects of tuples; a SourceError for NULL."""
        if not self._subject_columns:
            return np.zeros(len(table), np.int64)
        query = templates.render(
            "stream/quasi.sql.j2:subjects",
            relation="source",
            subject=[(one.name, one.type) for one in self._subject_columns],
        )
        register_source(self._con, table)
        found = engine.table(self._con, query, STAGE).column(0)
        self._con.unregister("source")
        if found.null_count:
            place = found.is_null().to_pylist().index(True)
            names = ", ".join(one.name for one in self._subject_columns)
            number = int(self._buffer.counts[0]) + sum(map(len, self._waiting)) + place + 1
            raise SourceError(f"subject ({names}) is NULL in tuple {number}: name whose it is")
        return arrow.numbers(found)


def _bound(
    con: duckdb.DuckDBPyConnection, policy: StreamPolicy, schema: pa.Schema
) -> tuple[tuple[Attribute, ...], tuple[SubjectColumn, ...]]:
    """Return the columns with their roles, and the columns that identify the subject."""
    register_source(con, readable(pa.Table.from_batches([], schema), categories=False))
    columns = columns_of(con, "source", STAGE)
    con.unregister("source")
    check_kinds(policy, columns)
    attributes = bind.bind(policy.rows, columns)
    if policy.class_id and fold(CLASS) in {fold(one.name) for one in attributes}:
        raise PolicyError(f"class_id = True adds a column {CLASS!r}, which the stream has: rename it")
    return attributes, subject_columns_of(policy.rows, columns)


def _other_schema(found: pa.Schema, known: pa.Schema) -> str:
    """Return the first difference between two schemas, in words."""
    if found.names != known.names:
        return f"has the columns {', '.join(found.names)}, not {', '.join(known.names)} as the first one"
    for one, other in zip(found, known, strict=True):
        if one.type != other.type:
            return f"has {one.name!r} as {one.type}, not {other.type} as the first one"
    return "has another schema than the first one"
