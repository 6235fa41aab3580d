"""Records are exchanged between classes: t is repaired (`reduce_violations`), and loss lowered (`refine`).

Both functions are in `refine`. `search` makes the `state`. `exchange` swaps and moves records between two
classes. `rebuild` forms neighbourhoods of classes anew. `ledger` keeps, for each class, the numbers that give
the violation after any swap, with `ledger_path` and `ledger_tree` for the two kinds of metric and `costs` for
single records. `windows` finds the swaps that keep t.

The numbers kept of a class are out of date once `state.add` or `state.take` has changed the class. The next
function that needs them computes them anew. The functions here count no references (`compiled.inner`).
"""
