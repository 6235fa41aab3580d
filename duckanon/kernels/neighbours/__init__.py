"""Who is near whom: trees, heaps and orders of points."""
