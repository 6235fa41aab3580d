"""Partition: kernels label every record with its class, tile by tile, by a plan."""
