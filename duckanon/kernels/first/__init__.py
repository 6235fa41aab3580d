"""First partitions: methods that form classes from nothing.

`mdav`, `blocks` (MDAV in blocks of neighbours, for large tables), `tcloseness_first` and `anatomy` (no value
has more than its share); `one_by_one` has the parts that heuristics with seeds share.
"""
