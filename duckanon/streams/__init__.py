"""Streams: every tuple leaves in a class of k, after at most a given delay."""
