"""Records are exchanged between classes: t is repaired (`reduce_violations`), and loss lowered (`refine`).

Both are in `refine`; `search` makes the `state`, `exchange` swaps and moves between two classes, `rebuild`
forms neighbourhoods of classes anew, `ledger` keeps of each class what tells the violations after every swap
(`ledger_path` and `ledger_tree`, with the `costs` of records there), and `windows` which swaps keep t.
What is kept of a class is out of date once `state.add` or `state.take` has changed it, and is renewed at the
first look after that. These functions count no references (`compiled.inner`).
"""
