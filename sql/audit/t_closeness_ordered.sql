-- audit: t_closeness_ordered
-- question: How far is every class from the whole table in a sensitive column whose values have an order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- formula: EMD(P, Q) = 1 / (m - 1) * sum over i of | sum over j <= i of (p_j - q_j) |
-- source: Li et al. 2007, section 5.1. v_1 < ... < v_m are the values of the table, NULL last; p_j is the
--         share of v_j in the class, q_j its share in the table. Where m = 1 the distance is 0.
WITH
q AS (SELECT value, count(*) AS records FROM class_member GROUP BY value),
p AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
total AS (SELECT CAST(sum(records) AS HUGEINT) AS n, greatest(count(*) - 1, 1) AS steps FROM q),
cumulated AS (
    SELECT
        size.class,
        size.class_size,
        sum(coalesce(p.members, 0) * total.n - q.records * size.class_size) OVER (
            PARTITION BY size.class ORDER BY q.value ASC NULLS LAST ROWS UNBOUNDED PRECEDING
        ) AS difference
    FROM size
    CROSS JOIN q
    CROSS JOIN total
    LEFT JOIN p ON p.class = size.class AND p.value IS NOT DISTINCT FROM q.value
)
SELECT
    cumulated.class,
    cumulated.class_size,
    sum(abs(cumulated.difference)) AS emd_numerator,
    max(cumulated.class_size * total.n * total.steps) AS emd_denominator,
    CAST(sum(abs(cumulated.difference)) AS DOUBLE) / max(cumulated.class_size * total.n * total.steps) AS emd
FROM cumulated
CROSS JOIN total
GROUP BY cumulated.class, cumulated.class_size
