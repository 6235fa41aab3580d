"""CASTLE: tuples of a stream wait in clusters, and leave as ranges.

`stream` is the entry, `clusters` holds what waits, and `classes` says in which classes a cluster leaves.
"""
