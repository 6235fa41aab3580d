-- audit: similarity
-- question: Which classes fall wholly below one node of the tree, which is so known of all their records?
-- reads: class_member(class, value), tree(value, level, node), threshold(level)
-- returns: class, class_size BIGINT (records), node; one row a vulnerable class
-- violation: every row
-- source: Li et al. 2007, section 3 (similarity attack) and section 6. NULL has no relatives.
WITH height AS (
    SELECT max(path.level) AS root_level
    FROM tree AS path
),
root AS (
    SELECT min(path.node) AS node
    FROM tree AS path
    JOIN height ON height.root_level = path.level
),
parent AS (
    SELECT path.value, path.node
    FROM tree AS path
    JOIN threshold ON threshold.level = path.level
    UNION ALL
    SELECT NULL AS value, CASE WHEN threshold.level = height.root_level THEN root.node END AS node
    FROM threshold
    CROSS JOIN height
    CROSS JOIN root
),
class_node AS (
    SELECT cm.class, parent.node, count(*) AS members
    FROM class_member AS cm
    JOIN parent ON parent.value IS NOT DISTINCT FROM cm.value
    GROUP BY cm.class, parent.node
)
SELECT class, CAST(sum(members) AS BIGINT) AS class_size, min(node) AS node
FROM class_node
GROUP BY class
HAVING count(*) = 1
