-- audit: release_values
-- question: Of how many values of a column are there fewer in a later release, and of how many more, in any
--           class?
-- reads: release_value(is_new, class, attribute, value): a row a record of either release and sensitive
--        column
-- returns: attribute, removed BIGINT, added BIGINT (values, as often as they are there)
-- violation: none; release_verdict_values.sql judges them
-- source: multiset difference of two columns
WITH value_count AS (
    SELECT attribute, value, CAST(sum(CASE WHEN is_new THEN 1 ELSE -1 END) AS BIGINT) AS change
    FROM release_value
    GROUP BY attribute, value
)
SELECT
    attribute,
    CAST(sum(greatest(-change, 0)) AS BIGINT) AS removed,
    CAST(sum(greatest(change, 0)) AS BIGINT) AS added
FROM value_count
GROUP BY attribute
