-- evidence: own_functions
-- question: How does a name mean DuckDB's own function or view, whatever the current database holds under that name?
SET search_path = 'system.main'
