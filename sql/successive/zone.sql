-- successive: zone
-- question: In which time zone does the session write an instant?
-- reads: nothing
-- returns: one row
SELECT current_setting('TimeZone') AS zone
