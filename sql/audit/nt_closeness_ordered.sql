-- audit: nt_closeness_ordered
-- question: How far is every class from larger groups that hold it, in a sensitive column with an order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- formula: EMD(P, Q) = 1 / (m - 1) * sum over i of | sum over j <= i of (p_j - q_j) |
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness: the distance of t_closeness_ordered.sql with the
--         superset in place of the table; v_1 < ... < v_m are still the values of the whole table, NULL
--         last.
WITH
domain AS (SELECT DISTINCT value FROM class_member),
p AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
q AS (
    SELECT held.superset, p.value, sum(p.members) AS records
    FROM p JOIN class_superset AS held ON held.class = p.class
    GROUP BY held.superset, p.value
),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
superset_size AS (SELECT superset, CAST(sum(records) AS HUGEINT) AS n FROM q GROUP BY superset),
total AS (SELECT greatest(count(*) - 1, 1) AS steps FROM domain),
cumulated AS (
    SELECT
        size.class,
        held.superset,
        size.class_size,
        whole.n,
        sum(coalesce(p.members, 0) * whole.n - coalesce(q.records, 0) * size.class_size) OVER (
            PARTITION BY size.class, held.superset
            ORDER BY domain.value ASC NULLS LAST ROWS UNBOUNDED PRECEDING
        ) AS difference
    FROM size
    JOIN class_superset AS held ON held.class = size.class
    JOIN superset_size AS whole ON whole.superset = held.superset
    CROSS JOIN domain
    LEFT JOIN p ON p.class = size.class AND p.value IS NOT DISTINCT FROM domain.value
    LEFT JOIN q ON q.superset = held.superset AND q.value IS NOT DISTINCT FROM domain.value
)
SELECT
    cumulated.class,
    cumulated.superset,
    cumulated.class_size,
    CAST(cumulated.n AS BIGINT) AS superset_size,
    sum(abs(cumulated.difference)) AS emd_numerator,
    max(cumulated.class_size * cumulated.n * total.steps) AS emd_denominator,
    CAST(sum(abs(cumulated.difference)) AS DOUBLE)
    / max(cumulated.class_size * cumulated.n * total.steps) AS emd
FROM cumulated
CROSS JOIN total
GROUP BY cumulated.class, cumulated.superset, cumulated.class_size, cumulated.n
