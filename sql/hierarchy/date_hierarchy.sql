-- hierarchy: date_hierarchy
-- question: Which dates lie in the same month, quarter and year?
-- reads: the values of a column of dates or timestamps; levels: some of day, month, quarter, year, decade, in this order
-- returns: one row a value: value, labels from the first level to the root: 2024-02, 2024-Q1, 2024, *
--
-- CREATE TABLE born_tree AS FROM date_hierarchy('patients', 'born')
CREATE OR REPLACE TEMP MACRO date_hierarchy(tbl, col, levels := ['month', 'quarter', 'year']) AS TABLE
WITH known AS (
    SELECT DISTINCT COLUMNS([col]) AS value
    FROM query_table(tbl)
),
leaf AS (
    SELECT
        value,
        CASE WHEN typeof(value) = 'VARCHAR' THEN error('date_hierarchy: the column is text: give a table or view that has it as CAST(... AS DATE)') ELSE CAST(value AS TIMESTAMP) END AS moment
    FROM known
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
                WHEN 'day' THEN strftime(leaf.moment, '%Y-%m-%d')
                WHEN 'month' THEN strftime(leaf.moment, '%Y-%m')
                WHEN 'quarter' THEN strftime(leaf.moment, '%Y') || '-Q' || quarter(leaf.moment)
                WHEN 'year' THEN strftime(leaf.moment, '%Y')
                ELSE CAST(year(leaf.moment) // 10 * 10 AS VARCHAR) || 's'
            END
        ),
        '*'
    ) AS labels
FROM leaf
CROSS JOIN ordered
WHERE leaf.value IS NOT NULL
ORDER BY leaf.value ASC;
