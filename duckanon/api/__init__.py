"""The interface for users: connections with our statements, and functions for Python and SQL."""
