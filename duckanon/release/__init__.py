"""From a query and a policy to a view that anyone may read, and what is kept about it."""
