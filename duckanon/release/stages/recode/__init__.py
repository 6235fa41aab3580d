"""Recode: the classes become the released table, one value a class and quasi-identifier."""
