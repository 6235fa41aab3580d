"""How far classes are from the whole table.

`reference` is the distribution of a sensitive attribute in the table, `emd` the distance of classes from it,
`threshold` what t, l and c ask of a class, and its violation; `histograms` counts values by class.
"""
