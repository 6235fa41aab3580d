-- audit: release_common_values
-- question: How many different values has a class in each of two releases, and how many of them in both?
-- reads: release_value(is_new, class, attribute, value): a row a record of either release and sensitive
--        column
-- returns: attribute, class, older BIGINT, newer BIGINT, common BIGINT (values, 0 where it is not in a
--          release)
-- violation: none; release_verdict_values.sql judges them
-- source: Xiao and Tao 2007, m-invariance: who is in the class in both releases has a value that it has in
--         both
WITH class_value AS (
    SELECT
        attribute,
        class,
        value,
        max(CASE WHEN is_new THEN 0 ELSE 1 END) AS older,
        max(CASE WHEN is_new THEN 1 ELSE 0 END) AS newer
    FROM release_value
    GROUP BY attribute, class, value
)
SELECT
    attribute,
    class,
    CAST(sum(older) AS BIGINT) AS older,
    CAST(sum(newer) AS BIGINT) AS newer,
    CAST(sum(older * newer) AS BIGINT) AS common
FROM class_value
GROUP BY attribute, class
