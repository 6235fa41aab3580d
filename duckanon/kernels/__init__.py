"""Partition kernels: arrays in, labels out.

- `points`, `loss`, `compose`: checks and scales; information loss; from points to the classes of a release.
- `first`: first partitions (MDAV, MDAV in blocks, t-closeness-first).
- `closeness`: EMD, and the violation of t, l and c by a class. t is repaired in two steps:
  `exchange.refine.reduce_violations` exchanges records, `merge.merge_classes` merges what is left.
- `exchange`: records change places between classes: fewer violations, then less loss (`refine`).
- `dominance`: the p % rule, and merging until it is kept.
- `steered`, `castle`: classes of tuples that come one after the other, within a delay.
- `neighbours`: search trees and orders of points. `compiled`: how the hot loops are compiled; `prepared`:
  which of them came compiled. `splitmix`: random numbers that are the same on every processor.

The contract of every kernel, unless its docstring says otherwise:

- ``points`` is an array_like of shape (n, d), one row a record: finite numbers, at most 1e150, already on the
  scale on which distances are taken. ``k`` is the smallest class size, 1..n. ``labels`` are an array of shape
  (n,), int64: the class of each record, 0..m-1, no class empty. ``codes`` are value codes of sensitive
  attributes: an array_like of shape (n,) for each of S ``thresholds``, or a matrix (S, n).
- A kernel is deterministic: equal input gives equal output on every run and every thread. Equal distances go
  to the lowest record number. Randomness comes from an explicit seed only.
- A kernel raises ValueError for input that it cannot use (k < 1, k > n, NaN, infinity, values above 1e150,
  labels with an empty class, shapes that do not fit), and changes none of its arguments.
- A kernel does no input, output or logging, and knows nothing of databases, column names or types.

Shapes stand in parentheses after a name. n records have d columns and m classes, a class has s records, S is
the number of thresholds, and a hierarchy has height H. Arrays are int64 or float64 unless stated.

Hot loops are compiled by numba, with the package or at their first call, and release the interpreter lock.
They take named tuples of arrays, because numba takes these apart.
"""
