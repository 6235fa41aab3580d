"""Partition: kernels label every record with its class, tile after tile, by a plan."""
