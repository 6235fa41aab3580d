-- audit: class_metrics
-- question: How coarse are the classes? (a price of privacy, not a privacy measure)
-- reads: class_member(class, value), threshold(k)
-- returns: one row: discernibility HUGEINT (sum of squared class sizes), c_avg DOUBLE (average class
--          size / k), minimum_class_size BIGINT, average_class_size DOUBLE (records)
-- violation: none
-- source: Li et al. 2007, section 6; Bayardo and Agrawal 2005 (discernibility); LeFevre et al. 2006 (c_avg)
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
)
SELECT
    sum(CAST(class_size.members AS HUGEINT) * class_size.members) AS discernibility,
    CAST(sum(class_size.members) AS DOUBLE) / (CAST(count(*) AS DOUBLE) * max(threshold.k)) AS c_avg,
    min(class_size.members) AS minimum_class_size,
    CAST(sum(class_size.members) AS DOUBLE) / CAST(count(*) AS DOUBLE) AS average_class_size
FROM class_size
CROSS JOIN threshold
