"""How far classes are from the whole table.

`reference` is the distribution of a sensitive attribute in the table and in classes, `emd` the distance of
classes from the table, `threshold` what t, l and c ask of a class, and its violation. `joint` is the exact
distance for several attributes together.
"""
