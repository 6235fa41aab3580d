"""Steered microaggregation of a stream: tuples wait in a buffer, and leave in classes within their delay.

`stream` is the entry, `buffer` holds what waits and says with which others a tuple leaves, and `closeness`
grows a class until it has l values and is within t of what was read.
"""
