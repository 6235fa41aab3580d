"""Advise: warnings for the owner of a valid release."""
