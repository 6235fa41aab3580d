-- audit: t_closeness_equal
-- question: How far is every class from the whole table in a sensitive column whose values have no order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- formula: EMD(P, Q) = 1 / 2 * sum over i of | p_i - q_i |
-- source: Li et al. 2007, section 5.2, equal distance. p_i is the share of the value v_i in the class, q_i
--         its share in the table; NULL is a value.
WITH
q AS (SELECT value, count(*) AS records FROM class_member GROUP BY value),
p AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
total AS (SELECT CAST(sum(records) AS HUGEINT) AS n FROM q),
compared AS (
    SELECT
        size.class,
        size.class_size,
        coalesce(p.members, 0) * total.n - q.records * size.class_size AS difference
    FROM size
    CROSS JOIN q
    CROSS JOIN total
    LEFT JOIN p ON p.class = size.class AND p.value IS NOT DISTINCT FROM q.value
)
SELECT
    compared.class,
    compared.class_size,
    sum(abs(compared.difference)) AS emd_numerator,
    max(2 * compared.class_size * total.n) AS emd_denominator,
    CAST(sum(abs(compared.difference)) AS DOUBLE) / max(2 * compared.class_size * total.n) AS emd
FROM compared
CROSS JOIN total
GROUP BY compared.class, compared.class_size
