"""The parts of a linkage attack: columns of two tables, released cells, groups that cannot be told apart."""
