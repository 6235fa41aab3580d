"""Advise: what the owner of a valid release should know."""
