"""How far classes are from the whole table: distributions, EMD, thresholds."""
