"""CASTLE once more, slowly, in fractions and sets: by the paper's algorithms, not from the code under test.

Cao, Carminati, Ferrari and Tan, "CASTLE: Continuously Anonymizing Data Streams", 2011. Sets of clusters Gamma
(waiting) and Omega (to use again); where the paper takes any one, the earliest is taken; a suppressed tuple is
dropped; Omega keeps its newest `reusable` classes. The text itself was not at hand: what it says is as descriptions and
public implementations have it, which agree but where a comment says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Box = list[tuple[Fraction, Fraction]]


class Stream(NamedTuple):
    """A stream and what is asked of it."""

    points: Sequence[Sequence[float]]
    k: int
    delay: int
    clusters: int
    recent: int
    reusable: int
    subjects: Sequence[int] | None = None


@dataclass
class Expected:
    """What becomes of a stream: (time, class, alone, box, members) in the order of output; dropped, held."""

    left: list[tuple[int, int, bool, Box, list[int]]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


class Oracle:
    """Algorithms of the paper, by its names."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.gamma: list[list[int]] = []  # clusters of positions, in the order in which they were made
        self.omega: list[tuple[int, Box]] = []
        self.losses: list[Fraction] = []
        self.found = Expected()
        self.time = -1

    def box(self, members: Sequence[int]) -> Box:
        columns = zip(*(map(Fraction, self.stream.points[i]) for i in members), strict=True)
        return [(min(column), max(column)) for column in map(list, columns)]

    def loss(self, members: Sequence[int]) -> Fraction:
        box = self.box(members)
        return sum((high - low for low, high in box), Fraction(0)) / len(box)

    def enlargement(self, members: Sequence[int], more: Sequence[int]) -> Fraction:
        return self.loss([*members, *more]) - self.loss(members)

    def subject(self, i: int) -> int:
        return i if self.stream.subjects is None else self.stream.subjects[i]

    def size(self, members: Sequence[int]) -> int:
        return len({self.subject(i) for i in members})

    @property
    def tau(self) -> Fraction:
        last = self.losses[-self.stream.recent :]
        return sum(last, Fraction(0)) / len(last) if last else Fraction(0)

    def best_selection(self, t: int) -> list[int] | None:
        # "Any" of the best in the implementations; here the one of fewest subjects, then the earliest.
        if not self.gamma:
            return None
        least = min(self.enlargement(cluster, [t]) for cluster in self.gamma)
        set_min = [cluster for cluster in self.gamma if self.enlargement(cluster, [t]) == least]
        set_ok = [cluster for cluster in set_min if self.loss([*cluster, t]) <= self.tau]
        if set_ok:
            return min(set_ok, key=self.size)
        return min(set_min, key=self.size) if len(self.gamma) >= self.stream.clusters else None

    def read(self, t: int) -> None:
        self.time = t
        cluster = self.best_selection(t)
        if cluster is None:
            self.gamma.append([t])
        else:
            cluster.append(t)
        expiring = t - self.stream.delay
        if any(expiring in cluster for cluster in self.gamma):
            self.delay_constraint(expiring, end=False)

    def remove(self, t: int) -> None:
        for cluster in self.gamma:
            if t in cluster:
                cluster.remove(t)
        self.gamma = [cluster for cluster in self.gamma if cluster]

    def delay_constraint(self, t: int, *, end: bool) -> None:
        (cluster,) = (cluster for cluster in self.gamma if t in cluster)
        if self.size(cluster) < self.stream.k:
            for number, box in self.omega:
                if all(low <= x <= high for (low, high), x in zip(box, self.stream.points[t], strict=True)):
                    self.found.left.append((self.time, number, True, box, [t]))
                    self.remove(t)
                    return
            few = self.size([i for other in self.gamma for i in other]) < self.stream.k
            outlier = sum(self.size(cluster) < self.size(other) for other in self.gamma) > len(self.gamma) / 2
            if few and end:
                return
            if outlier or few:
                self.found.dropped.append(t)
                self.remove(t)
                return
            while self.size(cluster) < self.stream.k:
                others = [other for other in self.gamma if other is not cluster]
                nearest = min(others, key=lambda other: self.enlargement(cluster, other))
                cluster.extend(nearest)
                self.gamma = [other for other in self.gamma if other is not nearest]
        self.output(cluster)

    def output(self, cluster: list[int]) -> None:
        self.gamma = [other for other in self.gamma if other is not cluster]
        members = sorted(cluster)
        for part in self.split(members) if self.size(members) >= 2 * self.stream.k else [members]:
            number, box = len(self.losses), self.box(part)
            self.found.left.append((self.time, number, False, box, sorted(part)))
            self.losses.append(self.loss(part))
            if self.losses[-1] < self.tau:
                self.omega = [*self.omega, (number, box)][-self.stream.reusable :]

    def split(self, members: list[int]) -> list[list[int]]:
        buckets: dict[int, list[int]] = {}
        for i in members:
            buckets.setdefault(self.subject(i), []).append(i)
        parts = []
        while len(buckets) >= self.stream.k:
            mine = min(buckets, key=lambda subject: buckets[subject][0])
            t = buckets[mine][0]
            others = sorted(
                (bucket[0] for subject, bucket in buckets.items() if subject != mine),
                key=lambda i: (self.enlargement([t], [i]), i),
            )
            part = [t, *others[: self.stream.k - 1]]
            parts.append(part)
            left = {subject: [i for i in bucket if i not in part] for subject, bucket in buckets.items()}
            buckets = {subject: bucket for subject, bucket in left.items() if bucket}
        for bucket in sorted(buckets.values()):
            min(parts, key=lambda part, bucket=bucket: self.enlargement(part, bucket[:1])).extend(bucket)
        return parts


def expected(stream: Stream) -> Expected:
    """Run it over a stream, and let all that is held expire at the end."""
    oracle = Oracle(stream)
    for t in range(len(stream.points)):
        oracle.read(t)
    for t in range(len(stream.points)):
        if any(t in cluster for cluster in oracle.gamma):
            oracle.delay_constraint(t, end=True)
    oracle.found.held = sorted(i for cluster in oracle.gamma for i in cluster)
    return oracle.found
