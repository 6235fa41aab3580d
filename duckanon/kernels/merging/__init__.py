"""Classes that violate a threshold are merged until none does: the second step of the repair of t.

`merge` is the entry, `partner` chooses whom a class is merged with, `state` holds the classes meanwhile.
"""
