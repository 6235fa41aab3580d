-- audit: nt_closeness_equal
-- question: How far is every class from larger groups that hold it, in a sensitive column without order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- formula: EMD(P, Q) = 1 / 2 * sum over i of | p_i - q_i |
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness: the distance of t_closeness_equal.sql with the
--         superset in place of the table. NULL is a value.
WITH
p AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
q AS (
    SELECT held.superset, p.value, sum(p.members) AS records
    FROM p JOIN class_superset AS held ON held.class = p.class
    GROUP BY held.superset, p.value
),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
superset_size AS (SELECT superset, CAST(sum(records) AS HUGEINT) AS n FROM q GROUP BY superset),
compared AS (
    SELECT
        size.class,
        held.superset,
        size.class_size,
        whole.n,
        coalesce(p.members, 0) * whole.n - q.records * size.class_size AS difference
    FROM size
    JOIN class_superset AS held ON held.class = size.class
    JOIN superset_size AS whole ON whole.superset = held.superset
    JOIN q ON q.superset = held.superset
    LEFT JOIN p ON p.class = size.class AND p.value IS NOT DISTINCT FROM q.value
)
SELECT
    class,
    superset,
    class_size,
    CAST(n AS BIGINT) AS superset_size,
    sum(abs(difference)) AS emd_numerator,
    max(2 * class_size * n) AS emd_denominator,
    CAST(sum(abs(difference)) AS DOUBLE) / max(2 * class_size * n) AS emd
FROM compared
GROUP BY class, superset, class_size, n
