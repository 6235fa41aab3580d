"""Published methods of microaggregation and t-closeness, one family a module.

The pipeline does not need these methods. They serve comparisons, and users who must follow a paper to the
letter. Each method is as published, except `sabre`, which was written from descriptions of its paper.
docs/methods has the steps, guarantee and cost of every method. The head of a module has what the paper leaves
open, how it is read here, and which published figures come out.

`registry` holds the methods by name, `partitions` is `duckanon.partition`, and `task` is the input of a
method. Some modules are shared: `dissolve` is the second stage of DBA-2, MDAV-2 and TFRP-2,
`duckanon.kernels.first.univariate` cuts the path of MHM, and `mu_trees` is the forest of mu-Approx.

Every method, unless its docstring says otherwise, takes and returns what `duckanon.kernels` does:

- ``points``: array_like of shape (n, d), one row a record; finite numbers on their final scale, up to 1e150.
- ``k``: int, smallest class size, 1..n.
- It returns labels, an ndarray of shape (n,), int64: the class of each record, 0..m-1, no class empty,
  numbered in the order of formation.
- It raises ValueError if k < 1, k > n, or the points hold NaN, infinity or values above 1e150.
- It is exact and deterministic: equal distances go to the lowest record number.
- It takes O(n d) memory.

In few columns the records are searched in a tree, which saves most of the distances of the worst case.
Private functions take a ``leaf_size`` for it: n or more gives a plain scan, with the same result.
"""
