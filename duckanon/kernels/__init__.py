"""Partition kernels: arrays in, labels out.

The contract of every kernel:

- It takes numpy arrays and returns numpy arrays. Points are a matrix of shape (n, d), float64, already on
  the scale on which distances are to be taken; labels are an array of shape (n,), int64, with classes
  0..m-1, none of them empty.
- It is deterministic: equal input gives equal output on every run and every thread. Equal distances go to the
  lowest record number. There is no randomness but an explicit seed.
- It raises ValueError for input that it cannot use, and changes none of its arguments.
- It does no input or output, no logging, and knows nothing of databases, column names or types.

Hot loops are compiled by numba at their first call, once a machine (`duckanon.kernels.compiled`), and release
the interpreter lock.
"""
