"""Roles of columns and thresholds of a release, and how a policy is bound to the columns of its source."""
