"""Embed: every quasi-identifier becomes Euclidean coordinates, every sensitive value a code."""
