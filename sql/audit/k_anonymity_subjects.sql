-- audit: k_anonymity_subjects
-- question: Among how many different subjects does every record hide, where some have several records?
-- reads: class_subject(class, value): of every record, whose it is
-- returns: one row: k BIGINT (different subjects of the class that has fewest), classes BIGINT, records
--          BIGINT
-- violation: k < the k that was asked for
-- source: Samarati and Sweeney 1998, of persons; a NULL is nobody, and the macro refuses it
WITH class_size AS (
    SELECT class, count(DISTINCT value) AS subjects, count(*) AS members
    FROM class_subject
    GROUP BY class
)
SELECT
    min(subjects) AS k,
    count(*) AS classes,
    CAST(sum(members) AS BIGINT) AS records
FROM class_size
