-- audit: class_sizes
-- question: How many records share each combination of quasi-identifier values?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records)
-- violation: none; k_anonymity.sql judges the sizes
-- source: Samarati and Sweeney 1998, definition of an equivalence class
SELECT class, count(*) AS class_size
FROM class_member
GROUP BY class
