"""The first phase of SABRE: sensitive values are cut into buckets until an upper bound on EMD obeys t."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Reference


class Bucket(NamedTuple):
    """Neighbouring values, all of a node in a tree.

    Attributes
    ----------
    first, last : int
        The positions first..last-1.
    bound : int
        Records times scale times the greatest EMD between one of the values alone and the distribution of
        the table inside the bucket.
    level : int
        Level of the node in a tree; 0 on a path.
    """

    first: int
    last: int
    bound: int
    level: int


class _Path(NamedTuple):
    """Records, and records times position, at the positions before each."""

    records: NDArray[np.int64]
    moments: NDArray[np.int64]


class _Tree(NamedTuple):
    """By level and position: the node, and the records below the nodes of all lower levels, summed up."""

    nodes: NDArray[np.int64]
    below: NDArray[np.int64]
    records: NDArray[np.int64]


def buckets_within(known: Reference, limit: Fraction) -> list[Bucket]:
    """Return the buckets, divided greedily until their bounds sum to the limit or less.

    Parameters
    ----------
    known : Reference
        Distribution of the sensitive attribute in the table.
    limit : Fraction
        Greatest sum of the bounds: t times n times the scale of the distance.

    Returns
    -------
    list of Bucket
        In the order of their positions, which they cover.

    Notes
    -----
    The bucket whose division lowers the sum most is divided, of several the lowest: a node of a tree into its
    children, a stretch of a path in two where the bounds of the parts sum to the least, of several cuts the
    lowest. Every division of two values or more lowers the sum, which is 0 where every value has its own
    bucket. O(m b) time for b buckets on a path, O(m H) and O(b^2) in a tree. Exact and deterministic.
    """
    m = len(known.counts)
    shape: _Path | _Tree = _tree(known) if len(known.edges.nodes) else _path(known)
    height = len(known.edges.nodes) // m
    done = [_bucket(shape, 0, m, height)]
    children = [_divided(shape, done[0])]
    total = done[0].bound
    while total > limit:
        gains = [
            bucket.bound - sum(part.bound for part in parts)
            for bucket, parts in zip(done, children, strict=True)
        ]
        which = int(np.argmax(gains))
        parts = children[which]
        total -= gains[which]
        done[which : which + 1] = parts
        children[which : which + 1] = [_divided(shape, part) for part in parts]
    return done


def _path(known: Reference) -> _Path:
    """Return the prefix sums of a path."""
    counts = np.diff(known.edges.cumulative, prepend=0)
    moments = np.cumsum(counts * np.arange(len(counts)))
    return _Path(np.append(0, known.edges.cumulative), np.append(0, moments))


def _tree(known: Reference) -> _Tree:
    """Return the levels of a tree, the root on top."""
    m = len(known.counts)
    nodes = np.vstack([known.edges.nodes.reshape(-1, m), np.zeros((1, m), np.int64)])
    below = np.cumsum(known.edges.below.reshape(-1, m), axis=0)
    return _Tree(nodes, np.vstack([np.zeros((1, m), np.int64), below]), np.append(0, known.edges.cumulative))


def _bucket(shape: _Path | _Tree, first: int, last: int, level: int) -> Bucket:
    """Return a bucket with its bound."""
    if isinstance(shape, _Path):
        return Bucket(first, last, int(_ends(shape, first, last)), 0)
    # Records i and j are 2 apart for each lower level on which their nodes differ, in units of 1 / scale.
    records = int(shape.records[last] - shape.records[first])
    return Bucket(first, last, 2 * (level * records - int(shape.below[level, first:last].min())), level)


def _ends(path: _Path, first: int | NDArray[np.int64], last: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the farther end of a stretch is from its records, summed: no value inside is farther."""
    records = path.records[last] - path.records[first]
    moments = path.moments[last] - path.moments[first]
    return np.asarray(np.maximum(moments - records * first, records * (last - 1) - moments))


def _divided(shape: _Path | _Tree, bucket: Bucket) -> list[Bucket]:
    """Return the parts of a bucket, or itself if it holds one value."""
    first, last, _, level = bucket
    if last - first == 1:
        return [bucket]
    if isinstance(shape, _Path):
        cuts = np.arange(first + 1, last)
        cut = int(cuts[np.argmin(_ends(shape, first, cuts) + _ends(shape, cuts, last))])
        return [_bucket(shape, first, cut, 0), _bucket(shape, cut, last, 0)]
    while True:
        level -= 1
        starts = first + np.flatnonzero(np.diff(shape.nodes[level, first:last], prepend=-1))
        if len(starts) > 1:
            break
    ends = [*starts[1:].tolist(), last]
    return [_bucket(shape, a, b, level) for a, b in zip(starts.tolist(), ends, strict=True)]
