"""The report of a stream: its tuples, counted while they leave, and the evidence of a finished stream."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.audits.columns import audit_columns
from duckanon.audits.run import audit_sql
from duckanon.database import drafts, engine, templates
from duckanon.database.engine import temporary
from duckanon.database.fingerprint import fingerprint
from duckanon.errors import ReleaseError
from duckanon.hierarchies.tree import audit_tree
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.policy import AuditPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb
    from numpy.typing import NDArray

    from duckanon.audits.report import Report
    from duckanon.streams.methods import Departure
    from duckanon.streams.policy import StreamPolicy


@dataclass(frozen=True)
class StreamReport:
    """The tuples of a stream: each was written, dropped, or is held.

    Attributes
    ----------
    read, written, dropped, held : int
        Tuples; read = written + dropped + held. Held tuples wait, or are left at the end of the input.
    dropped_for : dict of str to int
        Dropped tuples by reason: 'few' (fewer than k different subjects were held at the end of the delay),
        'closeness' (no class of held tuples kept t, l and alpha); with 'castle' 'unlike' (most waiting tuples
        were in larger clusters) and 'outside' (outside the ranges of the class by less than a number tells).
    classes, alone, k : int
        Written classes; tuples written later with the values of one of these; subjects of a class. A class
        has k tuples, or at least k for t and l and with 'castle'.
    largest_class : int
        Tuples of the largest class when it left.
    largest_delay, mean_delay : float or None
        Tuples that were read between a tuple and its output; None before the first class.
    largest_reordering, mean_reordering : float or None
        Places between a tuple's rank in the output and its rank by arrival among the written tuples. Counted
        for tuples that came before every held tuple.
    largest_span, mean_span : float or None
        Places in the input between the first and the last tuple of a class when it left; at least k - 1.
    mse, mae : float or None
        Mean of the squared, and of the plain, Euclidean distances between tuples and the centres of their
        classes, on the scale and with the weights of the stream (a range is 1; a text 0 or 1), to three
        digits. The centre is the mean; with 'castle' the middle of the ranges.
    mean_width : float or None
        With 'castle' the mean over tuples and quasi-identifiers of the widths of their ranges on that scale:
        the paper's information loss (GLM), 0 to 1 where all is within the scale.
    closeness : dict or None
        With t, l or alpha: ``reference``, 'all' or 'window', for the tuples with which a class was compared
        when it left (all that were read, or the last ``window``); and for each sensitive column its distance,
        its thresholds, the largest EMD of a class, the fewest different values of a class, and with alpha the
        largest share of a value with an alpha.
    policy_hash : str
        SHA-256, in hex, of the policy.
    fingerprint, audit : str and Report, or None
        Of a finished stream. The fingerprint is the SHA-256 of a file (``sha256sum``), or that of a table's
        rows in any order (docs/evidence.md). The audit by plain SQL judges k, l and alpha. It reports
        the EMD from all written tuples and does not judge it: t is from the tuples that were read when a
        class left.
    versions : dict
        Of duckanon and DuckDB.
    """

    read: int
    written: int
    dropped: int
    held: int
    dropped_for: dict[str, int]
    classes: int
    alone: int
    k: int
    largest_class: int
    largest_delay: float | None
    mean_delay: float | None
    largest_reordering: float | None
    mean_reordering: float | None
    largest_span: float | None
    mean_span: float | None
    mse: float | None
    mae: float | None
    mean_width: float | None
    closeness: dict[str, Any] | None
    policy_hash: str
    versions: dict[str, str]
    fingerprint: str | None = None
    audit: Report | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        audit = None if self.audit is None else self.audit.to_dict()
        return {**asdict(replace(self, audit=None)), "audit": audit}

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """One line: tuples read, written, dropped and held."""
        return f"{self.read} tuples read: {self.written} written, {self.dropped} dropped, {self.held} held"


@dataclass
class Extent:
    """Largest number and mean of numbers that come in parts."""

    count: int = 0
    total: float = 0.0
    largest: float | None = None

    def add(self, numbers: NDArray[np.float64] | NDArray[np.int64]) -> None:
        """Count more numbers."""
        if len(numbers):
            self.count += len(numbers)
            if numbers.dtype == np.int64:
                self.total += int(numbers.sum())
            else:
                # Added one by one, so that the last digits do not depend on batches.
                self.total = float(np.add.accumulate(np.concatenate([[self.total], numbers]))[-1])
            self.largest = max(float(numbers.max()), self.largest or 0.0)

    @property
    def mean(self) -> float | None:
        """Mean of all numbers; None without a number."""
        return self.total / self.count if self.count else None


@dataclass
class Counts:
    """Running counts of a stream."""

    k: int
    read: int = 0
    written: int = 0
    dropped: int = 0
    dropped_for: dict[str, int] = field(default_factory=dict)
    classes: int = 0
    alone: int = 0
    largest_class: int = 0
    delays: Extent = field(default_factory=Extent)
    spans: Extent = field(default_factory=Extent)
    moved: Extent = field(default_factory=Extent)
    squares: Extent = field(default_factory=Extent)
    distances: Extent = field(default_factory=Extent)
    widths: Extent = field(default_factory=Extent)
    _open: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    _gone: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _gone_before: int = 0

    def add(
        self,
        left: Departure,
        points: NDArray[np.float64],
        came: NDArray[np.int64],
        *,
        read: int,
        oldest: int,
    ) -> None:
        """Count tuples that left, with coordinates (r, d), in the order of output.

        `came` (r,) are their places in the input; `oldest` is the place of the oldest held tuple.
        """
        formed = left.positions[~left.alone]
        firsts = np.flatnonzero(np.diff(left.classes[~left.alone], prepend=-1))
        sizes = np.diff(firsts, append=len(formed))
        lasts = firsts + sizes - 1
        self.delays.add(left.times - left.positions)
        self.spans.add(formed[lasts] - formed[firsts])
        squared = self._squared(left, points, firsts, sizes)
        self.squares.add(squared)
        self.distances.add(np.sqrt(squared))
        places = self.written + np.arange(len(left.positions))
        self._open = np.hstack([self._open, np.stack([came, places])])
        self._gone = np.concatenate([self._gone, left.dropped])
        self.read, self.written = read, self.written + len(left.positions)
        self.dropped += len(left.dropped)
        for reason, count in left.why.items():
            self.dropped_for[reason] = self.dropped_for.get(reason, 0) + count
        self.largest_class = max(self.largest_class, int(sizes.max(initial=0)))
        self.classes, self.alone = self.classes + len(firsts), self.alone + int(left.alone.sum())
        self._settle(oldest)

    def _squared(
        self,
        left: Departure,
        points: NDArray[np.float64],
        firsts: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return squared distances (r,) of tuples from the centres of their classes or ranges."""
        if left.ranges is not None:
            lows, highs = left.ranges
            self.widths.add((highs - lows).mean(axis=1))
            return np.asarray(((points - (lows + highs) / 2) ** 2).sum(axis=1))
        centres = np.add.reduceat(points, firsts, axis=0) / sizes[:, None] if len(firsts) else points
        away = points - np.repeat(centres, sizes, axis=0)
        return np.asarray(np.einsum("ij,ij->i", away, away))

    def _settle(self, oldest: int) -> None:
        """Count the reordering of tuples that came before every held tuple, since their rank is final."""
        settled = self._open[0] < oldest
        places, output = self._open[0, settled], self._open[1, settled]
        before = self._gone_before + np.searchsorted(self._gone, places)
        self.moved.add(np.abs(places - before - output))
        self._open = self._open[:, ~settled]
        done = self._gone < oldest
        self._gone_before += int(done.sum())
        self._gone = self._gone[~done]


_CSV_TYPES = re.compile(r"BIGINT|HUGEINT|DOUBLE|DECIMAL.*|BOOLEAN|DATE|TIMESTAMP.*")
"""Types as which columns of a CSV are read; all others, such as ranges and sets, are read as text."""


def with_evidence_of_file(
    report: StreamReport, output: Path, form: str, columns: Sequence[tuple[str, str]], policy: StreamPolicy
) -> StreamReport:
    """Return the report with the SHA-256 of a file, a CSV or JSON lines, and the audit of its rows.

    DuckDB reads the rows in the types of the stream.
    """
    found = _sha256(output)
    with engine.in_memory() as con:
        if form == "csv":
            kinds = [(name, kind if _CSV_TYPES.fullmatch(kind) else "VARCHAR") for name, kind in columns]
            relation = templates.render(
                "export/csv.sql.j2:read_csv", path=output, columns=kinds, escaped=[], restored=[], spans={},
                written={},
            )  # fmt: skip
        else:
            relation = templates.render("stream/json.sql.j2:read_json", path=output, columns=columns)
        audit = _audited(con, relation.strip(), columns, policy, name=str(output))
    if _sha256(output) != found:
        raise ReleaseError(f"{str(output)!r} was changed while it was audited: there is no evidence of it")
    return replace(report, fingerprint=found, audit=audit)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def with_evidence_of_table(
    report: StreamReport, con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]],
    policy: StreamPolicy, *, name: str,
) -> StreamReport:  # fmt: skip
    """Return the report with the fingerprint of a table and its audit."""
    audit = _audited(con, relation, columns, policy, name=name)
    return replace(report, fingerprint=fingerprint(con, relation), audit=audit)


def _audited(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]], policy: StreamPolicy,
    *, name: str,
) -> Report:  # fmt: skip
    """Audit k, and the l and alpha of sensitive columns; t is of the tuples that were read."""
    rows = policy.rows
    asked = AuditPolicy(
        quasi_identifiers=rows.quasi_identifiers, sensitive=rows.sensitive, k=rows.k, l=rows.l,
        l_diversity=rows.l_diversity, c=rows.c, alpha=rows.alpha, distance=rows.distance,
        hierarchies=rows.audited().hierarchies,
    )  # fmt: skip
    attributes = bind_audit(asked, columns)
    quasi = [one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER]
    graded = [one for one in attributes if one.distance == "hierarchical"]
    with temporary(con) if graded else nullcontext("") as workspace:
        trees = {one.name: audit_tree(con, workspace, one, relation=relation) for one in graded}
        measured = audit_columns(attributes, asked, trees)
        return audit_sql(con, relation, quasi, measured, k=rows.k, name=name)


def check_new(path: Path) -> None:
    """Raise a ReleaseError if the path exists, or its folder does not."""
    if os.path.lexists(path):
        raise ReleaseError(f"{str(path)!r} exists and a report never overwrites: remove it, or give --report")
    if not path.parent.is_dir():
        raise ReleaseError(f"cannot write {str(path)!r}: the folder {str(path.parent)!r} does not exist")


def keep(text: str, path: Path) -> None:
    """Write a document to a new file, whole or not at all."""
    try:
        with drafts.draft(path) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
            os.link(draft, path)
    except OSError as unwritten:
        raise ReleaseError(f"cannot write {str(path)!r}: {unwritten.strerror}") from unwritten
