"""Limit: what every class must satisfy, and whether all records together do."""
