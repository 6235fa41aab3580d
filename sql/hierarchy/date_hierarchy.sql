-- hierarchy: date_hierarchy
-- question: Which dates lie in the same month, quarter and year?
-- reads: the values of a column of dates or timestamps; levels: some of day, month, quarter, year, decade, in this order
-- returns: one row a value: value, labels from the first level to the root: 2024-02, 2024-Q1, 2024, *
--
-- CREATE TABLE born_tree AS FROM date_hierarchy('patients', 'born')
CREATE OR REPLACE TEMP MACRO date_hierarchy(tbl, col, levels := ['month', 'quarter', 'year']) AS TABLE
WITH leaf AS (
    SELECT DISTINCT COLUMNS([col]) AS value
    FROM query_table(tbl)
),
place AS (
    SELECT list_transform(levels, lambda level: list_position(['day', 'month', 'quarter', 'year', 'decade'], level)) AS places
),
ordered AS (
    SELECT
        CASE
            WHEN len(levels) > 0 AND len(list_filter(places, lambda place: place IS NULL)) = 0
                AND places = list_sort(list_distinct(places))
                THEN levels
            ELSE error('date_hierarchy: levels are some of day, month, quarter, year, decade, in this order')
        END AS levels
    FROM place
)
SELECT
    leaf.value,
    list_append(
        list_transform(
            ordered.levels,
            lambda level: CASE level
                WHEN 'day' THEN strftime(leaf.value, '%Y-%m-%d')
                WHEN 'month' THEN strftime(leaf.value, '%Y-%m')
                WHEN 'quarter' THEN strftime(leaf.value, '%Y') || '-Q' || quarter(leaf.value)
                WHEN 'year' THEN strftime(leaf.value, '%Y')
                ELSE CAST(year(leaf.value) // 10 * 10 AS VARCHAR) || 's'
            END
        ),
        '*'
    ) AS labels
FROM leaf
CROSS JOIN ordered
WHERE leaf.value IS NOT NULL
ORDER BY leaf.value ASC;
