-- hierarchy: prefix_hierarchy
-- question: Which codes have the same prefix?
-- reads: the values of a column of texts or codes, as zip or ICD; mask: character in place of each removed one
-- returns: one row a value: value, labels from its prefix with one character less to the root, equally many for each value
--
-- CREATE TABLE zip_tree AS FROM prefix_hierarchy('patients', 'zip')
--
-- 01234 has the labels 0123*, 012**, 01***, 0****, *****. A shorter value is padded with blanks: among these values, 012
-- has 012*, 012**, 01*** and so on.
CREATE OR REPLACE TEMP MACRO prefix_hierarchy(tbl, col, mask := '*') AS TABLE
WITH leaf AS (
    SELECT DISTINCT CAST(COLUMNS([col]) AS VARCHAR) COLLATE C AS value
    FROM query_table(tbl)
),
longest AS (
    SELECT greatest(max(length(value)), 1) AS size
    FROM leaf
)
SELECT
    CASE WHEN length(mask) = 1 THEN leaf.value ELSE error('prefix_hierarchy: mask is one character, as *') END AS value,
    list_transform(
        range(1, longest.size + 1),
        lambda level: left(leaf.value, longest.size - level) || repeat(mask, level)
    ) AS labels
FROM leaf
CROSS JOIN longest
WHERE leaf.value IS NOT NULL
ORDER BY leaf.value ASC;
