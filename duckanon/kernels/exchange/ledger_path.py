"""Exchanges on a path: prefix sums of what each record of a class adds to its edge sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.kernels.closeness.reference import LARGEST_LISTED
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.ledger_state import Ledger, over

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


class Path(NamedTuple):
    """Where the arrays of one path stand in `Rules.arrays`: cumulative counts, prefix sums, quantiles."""

    total: int
    values: int
    cumulative: int
    prefix: int
    quantiles: int


@inner
def path_of(rules: Rules, a: int) -> Path:
    """Return the places of a path."""
    rule = rules.table[a]
    m, start = rule["values"], rule["start"]
    return Path(rule["total"], m, start, start + m, start + 2 * m + 1)


@inner
def _before(arrays: NDArray[np.int64], path: Path, size: int, p: int, x: int) -> int:
    """Return the edge sum before position x of a distribution function that stays at p of size records."""
    level = path.total * p
    if size <= LARGEST_LISTED:
        q = arrays[path.quantiles + size * (size + 1) // 2 - 1 + p]
    else:
        q, end = 0, path.values
        while q < end:
            middle = (q + end) // 2
            if arrays[path.cumulative + middle] * size > level:
                end = middle
            else:
                q = middle + 1
    value = level * x - size * arrays[path.prefix + x]
    if x > q:
        value = 2 * (level * q - size * arrays[path.prefix + q]) - value
    return int(value)


@inner
def _cost(arrays: NDArray[np.int64], path: Path, size: int, rank: int, x: int) -> int:
    """Return what the record of a rank 1..size at position x adds to the edge sum, C_size(rank, x)."""
    return _before(arrays, path, size, rank - 1, x) - _before(arrays, path, size, rank, x)


@spliced
def open_path(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int, moves: bool,
) -> None:  # fmt: skip
    """Fill the ledger for one side and one path."""
    arrays, path, size = rules.arrays, path_of(rules, a), len(members)
    m = path.values
    ascending, kept = ledger.ascending[side, a], ledger.kept[side, a]
    down, up = ledger.down[side, a], ledger.up[side, a]
    if moves and size > 1:
        _prefix(arrays, path, ascending, kept, down, up, size, size - 1)
        total = _before(arrays, path, size - 1, size - 1, m)
        for i in range(size):
            r = ledger.rank[side, a, i]
            left = total + kept[r] + down[size] - down[r + 1]
            ledger.leave[side, i] += over(rules, a, size - 1, left)
    if moves:
        _prefix(arrays, path, ascending, kept, down, up, size, size + 1)
        total = _before(arrays, path, size + 1, size + 1, m)
        for j in range(len(others)):
            q = ledger.into[side, a, j]
            grown = total + kept[q] + up[size] - up[q]
            grown += _cost(arrays, path, size + 1, q + 1, codes[others[j]])
            ledger.join[side, j] += over(rules, a, size + 1, grown)
    _prefix(arrays, path, ascending, kept, down, up, size, size)
    ledger.total[side, a] = _before(arrays, path, size, size, m)
    for j in range(len(others)):
        q = ledger.into[side, a, j]
        ledger.enter[side, a, 0, j] = _cost(arrays, path, size, q, codes[others[j]]) if q > 0 else 0
        ledger.enter[side, a, 1, j] = _cost(arrays, path, size, q + 1, codes[others[j]]) if q < size else 0


@inner
def _prefix(
    arrays: NDArray[np.int64], path: Path, ascending: NDArray[np.int64], kept: NDArray[np.int64],
    down: NDArray[np.int64], up: NDArray[np.int64], size: int, as_of: int,
) -> None:  # fmt: skip
    """Write the prefix sums of the costs of a class as of another size, where its ranks exist."""
    kept[0] = down[0] = up[0] = 0
    for r in range(size):
        x = ascending[r]
        at_0 = _before(arrays, path, as_of, r - 1, x) if r > 0 else 0
        at_1 = _before(arrays, path, as_of, r, x)
        at_2 = _before(arrays, path, as_of, r + 1, x) if r + 1 <= as_of else 0
        at_3 = _before(arrays, path, as_of, r + 2, x) if r + 2 <= as_of else 0
        down[r + 1] = down[r] + (at_0 - at_1)
        kept[r + 1] = kept[r] + (at_1 - at_2)
        up[r + 1] = up[r] + (at_2 - at_3)


@inner
def path_swap(ledger: Ledger, side: int, a: int, size: int, i: int, j: int) -> int:
    """Return the edge sum of a path after a swap."""
    kept, r, q = ledger.kept[side, a], ledger.rank[side, a, i], ledger.into[side, a, j]
    total = ledger.total[side, a] + kept[size]
    if q > r:
        down = ledger.down[side, a]
        swapped = total - kept[q] + kept[r] + down[q] - down[r + 1] + ledger.enter[side, a, 0, j]
        return int(swapped)
    up = ledger.up[side, a]
    return int(total - kept[r + 1] + kept[q] + up[r] - up[q] + ledger.enter[side, a, 1, j])
