"""Attacks on a release, and errors of queries on it, measured beside the original."""
