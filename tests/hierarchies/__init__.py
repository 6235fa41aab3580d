"""Hierarchies: what builds and checks them."""
