-- workload: begin
-- does: begins a transaction in which nothing can be written
-- reads: nothing
-- returns: nothing
BEGIN TRANSACTION READ ONLY
