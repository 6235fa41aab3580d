-- audit: verdict_delta_disclosure
-- question: In which classes is a sensitive value much rarer or more frequent than in the table?
-- reads: value_share = the rows of value_shares.sql, threshold(delta DECIMAL(18,12), at most 30)
-- returns: class, class_size BIGINT (records), value DOUBLE (largest |ln(p / q)|, in nats; Infinity where the
--          class lacks a value of the table), present DOUBLE (the same of the values that it holds),
--          violated BOOLEAN or NULL
-- violation: the class lacks a value, p >= q exp(delta) or q >= p exp(delta). p / q is never exp(delta),
--            which is irrational; so in integers p > q * factor or q > p * factor. factor is exp(delta) or
--            less, by at most 2 * 10^-14 of it, so that no class passes by rounding
-- source: Brickell and Shmatikov 2008, definition 3: for every value of the table. pyCANON, anjana and ARX
--         skip the values that a class lacks: `present` (ARX in bits: log2, so its delta is larger)
WITH share AS (
    SELECT
        value_share.class,
        value_share.class_size,
        value_share.missing,
        threshold.delta,
        CAST(CAST(value_share.members AS HUGEINT) * value_share.table_size AS DOUBLE)
        / CAST(CAST(value_share.table_members AS HUGEINT) * value_share.class_size AS DOUBLE) AS ratio,
        CAST(value_share.members AS HUGEINT) AS members,
        CAST(value_share.table_members AS HUGEINT) AS table_members,
        CAST(value_share.class_size AS HUGEINT) AS size,
        CAST(value_share.table_size AS HUGEINT) AS total,
        CAST(floor(exp(CAST(threshold.delta AS DOUBLE)) * 999999999999990) AS HUGEINT) AS factor
    FROM value_share
    CROSS JOIN threshold
)
SELECT
    share.class,
    share.class_size,
    max(CASE WHEN share.missing > 0 THEN CAST('Infinity' AS DOUBLE) ELSE abs(ln(share.ratio)) END) AS value,
    max(abs(ln(share.ratio))) AS present,
    max(CASE
        WHEN share.delta IS NULL THEN NULL
        WHEN share.missing > 0
            OR share.members * share.total * 1000000000000000
            > least(share.table_members * share.factor, share.total * 1000000000000000) * share.size
            OR share.table_members * share.size * 1000000000000000
            > least(share.members * share.factor, share.size * 1000000000000000) * share.total
        THEN 1
        ELSE 0
    END) = 1 AS violated
FROM share
GROUP BY share.class, share.class_size
