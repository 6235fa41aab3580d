-- audit: t_closeness_hierarchical
-- question: How far is every class from the whole table in a sensitive column whose values form a tree?
-- reads: class_member(class, value), tree(value, level, node): level 0 the value itself, the highest the
--        root
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- formula: EMD(P, Q) = 1 / (2 H) * sum over the nodes N below the root of | p_N - q_N |
-- source: Li et al. 2007, section 5.2, hierarchical distance. H is the height of the tree; p_N is the share
--         of the records of the class whose value lies below N, q_N that of the table. What has to cross
--         the edge above N is p_N - q_N, and an edge costs 1 / (2 H). NULL has no relatives: a path of its
--         own.
WITH
root AS (SELECT max(path.level) AS height FROM tree AS path),
below AS (
    SELECT path.value, path.level, path.node
    FROM tree AS path CROSS JOIN root
    WHERE path.level < root.height
    UNION ALL
    SELECT DISTINCT NULL, path.level, NULL
    FROM tree AS path CROSS JOIN root
    WHERE path.level < root.height
),
placed AS (
    SELECT cm.class, below.level, below.node
    FROM class_member AS cm JOIN below ON below.value IS NOT DISTINCT FROM cm.value
),
q AS (SELECT level, node, count(*) AS records FROM placed GROUP BY level, node),
p AS (SELECT class, level, node, count(*) AS members FROM placed GROUP BY class, level, node),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
total AS (SELECT CAST(sum(class_size) AS HUGEINT) AS n FROM size),
compared AS (
    SELECT
        size.class,
        size.class_size,
        coalesce(p.members, 0) * total.n - q.records * size.class_size AS difference
    FROM size
    CROSS JOIN q
    CROSS JOIN total
    LEFT JOIN p ON p.class = size.class AND p.level = q.level AND p.node IS NOT DISTINCT FROM q.node
)
SELECT
    compared.class,
    compared.class_size,
    sum(abs(compared.difference)) AS emd_numerator,
    max(2 * root.height * compared.class_size * total.n) AS emd_denominator,
    CAST(sum(abs(compared.difference)) AS DOUBLE)
    / max(2 * root.height * compared.class_size * total.n) AS emd
FROM compared
CROSS JOIN total
CROSS JOIN root
GROUP BY compared.class, compared.class_size
