"""The audits on other engines: what carries over, and that it gives the same rows."""
