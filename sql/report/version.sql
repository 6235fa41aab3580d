-- report: version
-- question: Which engine gave the answers?
SELECT version() AS version
