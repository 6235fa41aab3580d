-- audit: dominance
-- question: Which totals of classes tell one of the few contributions that make them up?
-- reads: contribution(class, attribute, contributor, value): value a number, finite or NULL, added up for
--        each contributor; threshold(p, p_of, n, k, k_of): whole numbers or NULL; 10 % is p / p_of = 1 / 10
-- returns: class, attribute, contributors BIGINT (whose sum is not 0), total (of absolute values),
--          largest_share DOUBLE, n_share DOUBLE (of the n largest; both per cent of total, 0 of nothing),
--          p_reached DOUBLE (least per cent within which a contribution is estimated; NULL if there is none),
--          p_violated BOOLEAN, nk_violated BOOLEAN; n_share and these NULL without a threshold
-- violation: p_reached < 100 p / p_of (p % rule); n_share > 100 k / k_of ((n, k)-dominance)
-- source: Hundepool et al. 2012, Statistical Disclosure Control, section 4.2. For x_1 >= x_2 >= ... >= 0 the
--         p % rule is broken where x_3 + x_4 + ... < p/100 x_1: who knows x_2 finds x_1 from above so well.
--
-- With negative values who knows x_j and the total misses x_i by up to the sum of the positive ones of the
-- others on one side, of the negative ones on the other; the greater counts. Worst is the largest of a sign
-- beside the next of that sign, or beside the largest of the other. Exact where values are.
WITH contributed AS (
    SELECT class, attribute, contributor, coalesce(sum(value), 0) AS value
    FROM contribution
    GROUP BY class, attribute, contributor
),
signed AS (
    SELECT class, attribute, abs(value) AS amount, CASE WHEN value > 0 THEN 1 ELSE 0 END AS above
    FROM contributed
),
placed AS (
    SELECT class, attribute, amount, above,
        row_number() OVER (PARTITION BY class, attribute, above ORDER BY amount DESC NULLS LAST) AS place,
        row_number() OVER (PARTITION BY class, attribute ORDER BY amount DESC NULLS LAST) AS place_of_all
    FROM signed
),
summed AS (
    SELECT placed.class, placed.attribute, sum(amount) AS total, max(amount) AS largest,
        count(CASE WHEN amount > 0 THEN 1 END) AS contributors,
        sum(CASE WHEN place_of_all <= threshold.n THEN amount ELSE 0 END) AS of_n,
        max(CASE WHEN above = 1 THEN amount ELSE 0 END) AS high,
        sum(CASE WHEN above = 1 THEN amount ELSE 0 END) AS high_sum,
        sum(CASE WHEN above = 1 AND place > 1 THEN amount ELSE 0 END) AS high_others,
        sum(CASE WHEN above = 1 AND place > 2 THEN amount ELSE 0 END) AS high_rest,
        max(CASE WHEN above = 0 THEN amount ELSE 0 END) AS low,
        sum(CASE WHEN above = 0 THEN amount ELSE 0 END) AS low_sum,
        sum(CASE WHEN above = 0 AND place > 1 THEN amount ELSE 0 END) AS low_others,
        sum(CASE WHEN above = 0 AND place > 2 THEN amount ELSE 0 END) AS low_rest
    FROM placed CROSS JOIN threshold
    GROUP BY placed.class, placed.attribute
)
SELECT class, attribute, contributors, total,
    CASE WHEN total = 0 THEN 0.0
        ELSE 100.0 * CAST(largest AS DOUBLE) / CAST(total AS DOUBLE) END AS largest_share,
    CASE WHEN threshold.n IS NULL THEN NULL WHEN total = 0 THEN 0.0
        ELSE 100.0 * CAST(of_n AS DOUBLE) / CAST(total AS DOUBLE) END AS n_share,
    least(
        100.0 * CAST(greatest(high_rest, low_sum) AS DOUBLE) / CAST(nullif(high, 0) AS DOUBLE),
        100.0 * CAST(greatest(low_rest, high_sum) AS DOUBLE) / CAST(nullif(low, 0) AS DOUBLE),
        100.0 * CAST(greatest(high_others, low_others) AS DOUBLE) / CAST(nullif(largest, 0) AS DOUBLE)
    ) AS p_reached,
    threshold.p_of * greatest(high_rest, low_sum) < threshold.p * high
    OR threshold.p_of * greatest(low_rest, high_sum) < threshold.p * low
    OR threshold.p_of * greatest(high_others, low_others) < threshold.p * largest AS p_violated,
    threshold.k_of * of_n > threshold.k * total AS nk_violated
FROM summed CROSS JOIN threshold
