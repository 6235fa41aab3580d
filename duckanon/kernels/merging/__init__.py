"""Classes that violate a threshold are merged until none does: the second step of the repair of t.

`merge` is the entry, `partner` chooses the class that a violating class is merged with, and `state` holds the
classes meanwhile. `dominated` merges for the p % rule.
"""
