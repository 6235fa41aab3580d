"""First partitions: methods that form classes from nothing.

`mdav`, `blocks` (MDAV in blocks of neighbours, for large tables) and `tcloseness_first`; `one_by_one` has the
parts that heuristics with seeds share.
"""
