"""Records are exchanged between classes: t is repaired (`reduce_violations`), and loss lowered (`refine`).

Both are in `refine`; `search` makes the `state`, `exchange` swaps and moves between two classes, `rebuild`
forms neighbourhoods of classes anew, `ledger` tells the violations after every swap in constant time.
"""
