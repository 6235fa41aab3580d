-- audit: information_loss
-- question: How much of the variation of numeric columns did the release lose, in percent?
-- reads: released(record, attribute, value), original(record, attribute, value): value DOUBLE, finite or NULL
-- returns: attribute (NULL: all columns, z-scored by the original), information_loss DOUBLE (percent)
-- violation: none; it is a price of privacy, not a privacy measure
-- source: Domingo-Ferrer and Mateo-Sanz 2002: IL = 100 SSE / SST, here 100 (1 - SST(release) / SST(original))
--
-- Exact where released values are class means and no record is missing: SST(original) is the sum of squares
-- within the classes (SSE) plus the one between them, and only the latter remains. Else it is no bound: too
-- high where values were drawn closer together than class means, too low, even negative, where noise spread
-- them; whatever was done, 100 SSE / SST is at least 100 (1 - sqrt(SST(release) / SST(original)))^2.
-- A suppressed record counts as released with the mean; NULL is left out; a column that is constant in the
-- original loses nothing and counts in no total.
WITH side AS (
    SELECT FALSE AS is_released, old.attribute, old.value
    FROM original AS old
    UNION ALL
    SELECT TRUE AS is_released, new.attribute, new.value
    FROM released AS new
),
middle AS (
    SELECT is_released, attribute, sum(value) / count(value) AS mean
    FROM side
    GROUP BY is_released, attribute
),
spread AS (
    SELECT
        side.is_released,
        side.attribute,
        count(side.value) AS members,
        CASE
            WHEN min(side.value) < max(side.value)
            THEN sum((side.value - middle.mean) * (side.value - middle.mean))
            ELSE 0
        END AS squares
    FROM side
    JOIN middle ON middle.attribute = side.attribute AND middle.is_released = side.is_released
    GROUP BY side.is_released, side.attribute
),
remaining AS (
    SELECT
        old.attribute,
        old.squares > 0 AS varies,
        old.members,
        CASE
            WHEN old.squares > 0 THEN new.squares / old.squares
            WHEN new.squares > 0 THEN CAST('Infinity' AS DOUBLE)
            ELSE 1
        END AS share
    FROM spread AS old
    JOIN spread AS new ON new.attribute = old.attribute AND new.is_released
    WHERE NOT old.is_released
)
SELECT attribute, 100 * (1 - share) AS information_loss
FROM remaining
UNION ALL
SELECT NULL AS attribute, coalesce(100 * (1 - sum(members * share) / sum(members)), 0) AS information_loss
FROM remaining
WHERE varies
