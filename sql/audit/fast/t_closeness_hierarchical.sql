-- audit: t_closeness_hierarchical
-- question: How far is every class from the whole table in a sensitive column whose values form a tree?
-- reads: class_member(class, value), tree(value, level, node): level 0 the value itself, the highest the root
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.2, as a sum over edges: |P_below - Q_below| / (2 H), H the height.
--         NULL is a child of the root with no relatives.
WITH root AS (SELECT max(path.level) AS height FROM tree AS path),
edge AS (
    SELECT path.value, path.level, path.node FROM tree AS path CROSS JOIN root WHERE path.level < root.height
    UNION ALL
    SELECT NULL, path.level, NULL FROM tree AS path CROSS JOIN root WHERE path.level < root.height
    GROUP BY path.level
),
present AS (
    SELECT cm.class, edge.level, edge.node, count(*) AS members
    FROM class_member AS cm JOIN edge ON edge.value IS NOT DISTINCT FROM cm.value
    GROUP BY cm.class, edge.level, edge.node
),
domain AS (
    SELECT present.level, present.node, CAST(sum(present.members) AS BIGINT) AS records
    FROM present
    GROUP BY present.level, present.node
),
class_size AS (
    SELECT class, count(*) AS members FROM class_member GROUP BY class
),
total AS (SELECT CAST(sum(members) AS BIGINT) AS n FROM class_size),
difference AS (
    SELECT
        present.class,
        class_size.members AS class_size,
        abs(total.n * present.members - class_size.members * domain.records)
        - class_size.members * domain.records AS gain
    FROM present
    JOIN class_size ON class_size.class = present.class
    JOIN domain ON domain.level = present.level AND domain.node IS NOT DISTINCT FROM present.node
    CROSS JOIN total
),
class_gain AS (
    SELECT class, class_size, sum(gain) AS gain FROM difference GROUP BY class, class_size
)
SELECT
    class_gain.class,
    class_gain.class_size,
    class_gain.gain + CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS emd_numerator,
    2 * CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS emd_denominator,
    CAST(class_gain.gain + CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS DOUBLE)
    / (2 * CAST(root.height AS DOUBLE) * class_gain.class_size * total.n) AS emd
FROM class_gain
CROSS JOIN total
CROSS JOIN root
