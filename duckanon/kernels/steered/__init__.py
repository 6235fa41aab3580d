"""Steered microaggregation of a stream: tuples wait in a buffer, and leave in classes within their delay.

`stream` is the entry, `buffer` holds what waits and says with which others a tuple leaves, `seen`
counts the sensitive values, and `closeness` and `diversity` say by how much a class violates t, l and alpha.
"""
