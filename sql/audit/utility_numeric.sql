-- audit: utility_numeric
-- question: How far did mean, variance and quantiles of numeric columns move, in spreads of the original?
-- reads: released(record, attribute, value), original(record, attribute, value): value DOUBLE, finite or NULL
-- returns: attribute, statistic (mean, variance, quantile_05, _25, _50, _75, _95), original DOUBLE,
--          released DOUBLE, change DOUBLE: their difference, in standard deviations of the original (for the
--          variance: in variances); where the original is constant: 0, or Infinity with its sign
-- violation: none; it is a price of privacy, not a privacy measure
-- source: Templ, Kowarik and Meindl 2015 (sdcMicro), data utility. Moments are divided by the number of
--         values; the quantile of p % is the value in place ceil(p n / 100). NULL is left out.
WITH side AS (
    SELECT FALSE AS is_released, old.attribute, old.value FROM original AS old WHERE old.value IS NOT NULL
    UNION ALL
    SELECT TRUE AS is_released, new.attribute, new.value FROM released AS new WHERE new.value IS NOT NULL
),
middle AS (
    SELECT is_released, attribute, count(*) AS members,
        CASE WHEN min(value) = max(value) THEN min(value) ELSE sum(value) / count(*) END AS mean
    FROM side GROUP BY is_released, attribute
),
spread AS (
    SELECT side.is_released, side.attribute,
        sum((side.value - middle.mean) * (side.value - middle.mean)) / count(*) AS variance
    FROM side JOIN middle ON middle.attribute = side.attribute AND middle.is_released = side.is_released
    GROUP BY side.is_released, side.attribute
),
placed AS (
    SELECT is_released, attribute, value,
        row_number() OVER (PARTITION BY is_released, attribute ORDER BY value ASC NULLS LAST) AS place
    FROM side
),
quantile AS (
    SELECT is_released, attribute, 'quantile_05' AS statistic, (5 * members + 99) // 100 AS place FROM middle
    UNION ALL SELECT is_released, attribute, 'quantile_25', (25 * members + 99) // 100 FROM middle
    UNION ALL SELECT is_released, attribute, 'quantile_50', (50 * members + 99) // 100 FROM middle
    UNION ALL SELECT is_released, attribute, 'quantile_75', (75 * members + 99) // 100 FROM middle
    UNION ALL SELECT is_released, attribute, 'quantile_95', (95 * members + 99) // 100 FROM middle
),
figure AS (
    SELECT is_released, attribute, 'mean' AS statistic, mean AS value FROM middle
    UNION ALL
    SELECT is_released, attribute, 'variance' AS statistic, variance AS value FROM spread
    UNION ALL
    SELECT q.is_released, q.attribute, q.statistic, p.value
    FROM quantile AS q
    JOIN placed AS p ON p.is_released = q.is_released AND p.attribute = q.attribute AND p.place = q.place
)
SELECT old.attribute, old.statistic, old.value AS original, new.value AS released,
    CASE
        WHEN new.value = old.value THEN 0
        WHEN spread.variance = 0 AND new.value > old.value THEN CAST('Infinity' AS DOUBLE)
        WHEN spread.variance = 0 THEN CAST('-Infinity' AS DOUBLE)
        WHEN old.statistic = 'variance' THEN (new.value - old.value) / spread.variance
        ELSE (new.value - old.value) / sqrt(spread.variance)
    END AS change
FROM figure AS old
JOIN figure AS new ON new.attribute = old.attribute AND new.statistic = old.statistic AND new.is_released
JOIN spread ON spread.attribute = old.attribute AND NOT spread.is_released WHERE NOT old.is_released
