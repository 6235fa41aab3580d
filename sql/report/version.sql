-- report: version
-- question: Which engine gave the answers?
-- reads: nothing
-- returns: one row: version
SELECT version() AS version
