-- audit: utility_categorical
-- question: Which share of the records would have to change its value to get the original's frequencies?
-- reads: released(record, attribute, value), original(record, attribute, value)
-- returns: attribute, total_variation DOUBLE: sum of |p - q| / 2, from 0 (the same) to 1 (no value in common)
-- violation: none; it is a price of privacy, not a privacy measure
-- source: total variation distance of the two frequency distributions; NULL is a value like any other
WITH side AS (
    SELECT old.attribute, old.value, 1 AS original_members, 0 AS released_members
    FROM original AS old
    UNION ALL
    SELECT new.attribute, new.value, 0 AS original_members, 1 AS released_members
    FROM released AS new
),
present AS (
    SELECT
        attribute,
        value,
        CAST(sum(original_members) AS HUGEINT) AS original_members,
        CAST(sum(released_members) AS HUGEINT) AS released_members
    FROM side
    GROUP BY attribute, value
),
total AS (
    SELECT
        attribute,
        CAST(sum(original_members) AS HUGEINT) AS original_records,
        CAST(sum(released_members) AS HUGEINT) AS released_records
    FROM present
    GROUP BY attribute
)
SELECT
    present.attribute,
    CAST(
        sum(abs(
            present.released_members * total.original_records
            - present.original_members * total.released_records
        )) AS DOUBLE
    ) / (2 * CAST(max(total.original_records * total.released_records) AS DOUBLE)) AS total_variation
FROM present
JOIN total ON total.attribute = present.attribute
GROUP BY present.attribute
