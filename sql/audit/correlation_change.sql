-- audit: correlation_change
-- question: Which linear relations between numeric columns did the release change, the most changed first?
-- reads: released(record, attribute, value), original(record, attribute, value): value DOUBLE, finite or NULL
-- returns: attribute, other (a pair of columns), original DOUBLE, released DOUBLE (Pearson, -1 to 1),
--          change DOUBLE (released - original), severity BIGINT: 1 for the largest |change|
-- violation: none; it is a price of privacy, not a privacy measure
-- source: Pearson's coefficient over the records in which neither value is NULL; 0 where there is no such
--         record or one of the columns is constant in them: nothing varies together
WITH side AS (
    SELECT FALSE AS is_released, old.record, old.attribute, old.value FROM original AS old
    UNION ALL
    SELECT TRUE AS is_released, new.record, new.attribute, new.value FROM released AS new
),
pair AS (
    SELECT one.is_released, one.attribute, two.attribute AS other, one.value AS x, two.value AS y,
        one.value IS NOT NULL AND two.value IS NOT NULL AS complete
    FROM side AS one
    JOIN side AS two
        ON two.is_released = one.is_released AND two.record = one.record AND two.attribute > one.attribute
),
middle AS (
    SELECT is_released, attribute, other,
        sum(x) / count(*) AS mean_x,
        sum(y) / count(*) AS mean_y,
        min(x) < max(x) AND min(y) < max(y) AS varies
    FROM pair
    WHERE complete
    GROUP BY is_released, attribute, other
),
correlation AS (
    SELECT pair.is_released, pair.attribute, pair.other,
        greatest(-1, least(1, coalesce(
            sum((pair.x - middle.mean_x) * (pair.y - middle.mean_y))
            / sqrt(sum((pair.x - middle.mean_x) * (pair.x - middle.mean_x)))
            / sqrt(sum((pair.y - middle.mean_y) * (pair.y - middle.mean_y))), 0
        ))) AS pearson
    FROM pair
    LEFT JOIN middle
        ON middle.is_released = pair.is_released AND middle.attribute = pair.attribute
        AND middle.other = pair.other AND middle.varies AND pair.complete
    GROUP BY pair.is_released, pair.attribute, pair.other
)
SELECT old.attribute, old.other, old.pearson AS original, new.pearson AS released,
    new.pearson - old.pearson AS change,
    row_number() OVER (
        ORDER BY abs(new.pearson - old.pearson) DESC, old.attribute ASC, old.other ASC
    ) AS severity
FROM correlation AS old
JOIN correlation AS new ON new.attribute = old.attribute AND new.other = old.other AND new.is_released
WHERE NOT old.is_released
