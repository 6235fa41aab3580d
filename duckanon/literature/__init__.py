"""Published methods of microaggregation and t-closeness, one family a module.

The pipeline does not need them: they are here to be compared with, and for those who must follow a paper to
the letter. Each is as published, except `sabre`, which was written from descriptions of its paper.
`registry` has them by name, with guarantee, cost and source; `partitions` is `duckanon.partition`; `task` is
what a method works on. Some share parts: `dissolve` the second stage of DBA-2, MDAV-2 and TFRP-2,
`univariate` the cut of a path for MHM, `mu_trees` the forest of mu-Approx.

What every method takes and gives, where its docstring does not say otherwise, as in `duckanon.kernels`:

- ``points``: array_like of shape (n, d), one row a record; finite numbers on their final scale, up to 1e150.
- ``k``: int, smallest class size, 1..n.
- It returns labels, an ndarray of shape (n,), int64: the class of each record, 0..m-1, none of them empty.
- It raises ValueError if k < 1, k > n, or the points hold NaN, infinity or values above 1e150.
- It is exact and deterministic: equal distances go to the lowest record number.

In few columns the records are searched in a tree. Private functions take a ``leaf_size`` for it: n or more
gives a plain scan, with the same result.
"""
