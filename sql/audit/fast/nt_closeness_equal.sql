-- audit: nt_closeness_equal
-- question: How far is every class from larger groups that hold it, in a sensitive column without order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness; equal distance as in t_closeness_equal.sql, with the
--         superset in place of the table. NULL is a value.
WITH present AS (
    SELECT class, value, count(*) AS members
    FROM class_member
    GROUP BY class, value
),
class_size AS (
    SELECT class, CAST(sum(members) AS BIGINT) AS members
    FROM present
    GROUP BY class
),
held AS (
    SELECT one.superset, present.class, present.value, present.members
    FROM present
    JOIN class_superset AS one ON one.class = present.class
),
domain AS (
    SELECT superset, value, CAST(sum(members) AS BIGINT) AS records
    FROM held
    GROUP BY superset, value
),
superset_size AS (
    SELECT superset, CAST(sum(records) AS BIGINT) AS records
    FROM domain
    GROUP BY superset
),
difference AS (
    SELECT
        held.class, held.superset, class_size.members AS class_size,
        superset_size.records AS superset_size,
        abs(CAST(superset_size.records AS HUGEINT) * held.members - class_size.members * domain.records)
        - class_size.members * domain.records AS gain
    FROM held
    JOIN class_size ON class_size.class = held.class
    JOIN superset_size ON superset_size.superset = held.superset
    JOIN domain ON domain.superset = held.superset AND domain.value IS NOT DISTINCT FROM held.value
),
class_gain AS (
    SELECT class, superset, class_size, superset_size, sum(gain) AS gain
    FROM difference
    GROUP BY class, superset, class_size, superset_size
)
SELECT
    class, superset, class_size, superset_size,
    gain + CAST(class_size AS HUGEINT) * superset_size AS emd_numerator,
    2 * CAST(class_size AS HUGEINT) * superset_size AS emd_denominator,
    CAST(gain + CAST(class_size AS HUGEINT) * superset_size AS DOUBLE)
    / (2 * CAST(class_size AS DOUBLE) * superset_size) AS emd
FROM class_gain
