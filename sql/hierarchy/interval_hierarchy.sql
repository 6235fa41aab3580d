-- hierarchy: interval_hierarchy
-- question: Which numbers lie in the same interval, at each width?
-- reads: the values of a column of numbers; widths: width of each level, a multiple of the width before; origin: begin of
--        one of the intervals
-- returns: one row a value: value, labels from the narrowest interval to the root; an interval holds its begin and not
--          its end: [20, 25)
--
-- CREATE TABLE age_tree AS FROM interval_hierarchy('patients', 'age', [5, 10, 20])
--
-- Numbers are counted in units of 10^-10, so that 0.3 is the begin of an interval of width 0.1. The CTE that reads the table
-- is the first, since the table may have the name of a later CTE.
CREATE OR REPLACE TEMP MACRO interval_hierarchy(tbl, col, widths, origin := 0) AS TABLE
WITH leaf AS (
    SELECT DISTINCT COLUMNS([col]) AS value
    FROM query_table(tbl)
),
given AS (
    SELECT
        list_transform(widths, lambda width: CAST(CAST(width AS DECIMAL(28, 10)) * 10000000000 AS HUGEINT)) AS steps,
        CAST(CAST(origin AS DECIMAL(28, 10)) * 10000000000 AS HUGEINT) AS zero
),
nested AS (
    SELECT
        zero,
        CASE
            WHEN len(steps) > 0 AND list_min(steps) > 0 AND len(list_filter(steps, lambda step: step IS NULL)) = 0
                AND len(list_filter(range(2, len(steps) + 1), lambda place: steps[place] % steps[place - 1] <> 0 OR steps[place] = steps[place - 1])) = 0
                THEN steps
            ELSE error('interval_hierarchy: widths are numbers above 0, each a multiple of the one before, as [5, 10, 20]')
        END AS steps
    FROM given
),
counted AS (
    SELECT value, CAST(CAST(value AS DECIMAL(28, 10)) * 10000000000 AS HUGEINT) AS units
    FROM leaf
    WHERE value IS NOT NULL
),
placed AS (
    SELECT
        counted.value,
        nested.steps,
        list_transform(
            nested.steps,
            lambda step: counted.units - (((counted.units - nested.zero) % step) + step) % step
        ) AS lows
    FROM counted
    CROSS JOIN nested
)
SELECT
    value,
    list_append(
        list_transform(
            range(1, len(steps) + 1),
            lambda place: '['
                || regexp_replace(CAST(CAST(lows[place] AS DECIMAL(27, 0)) * 0.0000000001 AS VARCHAR), '[.]?0+$', '')
                || ', '
                || regexp_replace(CAST(CAST(lows[place] + steps[place] AS DECIMAL(27, 0)) * 0.0000000001 AS VARCHAR), '[.]?0+$', '')
                || ')'
        ),
        '*'
    ) AS labels
FROM placed
ORDER BY value ASC;
