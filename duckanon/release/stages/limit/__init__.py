"""Limit: thresholds for every class, and whether all records together keep them."""
