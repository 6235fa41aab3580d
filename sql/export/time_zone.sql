SELECT current_setting('TimeZone') AS time_zone
