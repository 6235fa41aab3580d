"""Streams: tuples wait no longer than a delay, and leave in classes of k."""
