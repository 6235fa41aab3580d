"""Records are exchanged between classes: t is repaired (`reduce_violations`), and loss lowered (`refine`).

Both functions are in `refine`. `state` holds a search under way. `exchange` swaps and moves records between
two classes. `rebuild` forms neighbourhoods of classes anew. `ledger` keeps, for each class, the numbers that
give the violation after any swap, in the memory of `ledger_state`; `ledger_path` has the numbers of a path,
and finds the swaps that keep t.

The numbers kept of a class are out of date once `state.add` or `state.take` has changed the class. The next
function that needs them computes them anew. The functions here count no references (`compiled.inner`).
"""
