"""Errors of queries on a release, beside their answers from the original."""
