"""First partitions: methods that form classes from nothing.

`mdav` (with the parts that heuristics with seeds share), `blocks` (MDAV in blocks of neighbours, for large
tables), `tcloseness_first` and `anatomy` (no value has more than its share).
"""
