"""Anonymized views: from a query and a policy to the published release and its metadata."""
