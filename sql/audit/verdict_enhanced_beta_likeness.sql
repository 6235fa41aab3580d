-- audit: verdict_enhanced_beta_likeness
-- question: In which classes does a sensitive value gain more than its rarity allows?
-- reads: value_share = the rows of value_shares.sql, threshold(enhanced_beta DECIMAL(18,12))
-- returns: class, class_size BIGINT (records), value DOUBLE (largest (p - q) / q; Infinity where it exceeds
--          -ln q, which no beta allows), violated BOOLEAN or NULL
-- violation: p > (1 + min(beta, -ln q)) q, in integers; -ln q or less stands for -ln q, by at most
--            3 * 10^-13, so that no class passes by rounding
-- source: Cao and Karras 2012, definition 2, enhanced beta-likeness
WITH share AS (
    SELECT
        value_share.class,
        value_share.class_size,
        threshold.enhanced_beta,
        CAST(value_share.members AS HUGEINT) * value_share.table_size AS found,
        CAST(value_share.table_members AS HUGEINT) * value_share.class_size AS expected,
        10000000000000 + greatest(
            CAST(floor(
                ln(CAST(value_share.table_size AS DOUBLE) / CAST(value_share.table_members AS DOUBLE))
                * 10000000000000
            ) AS HUGEINT) - 1, 0
        ) AS by_rarity,
        (1000000000000 + CAST(threshold.enhanced_beta * 1000000000000 AS HUGEINT)) * 10 AS by_beta
    FROM value_share
    CROSS JOIN threshold
)
SELECT
    share.class,
    share.class_size,
    max(CASE
        WHEN share.found * 10000000000000 > share.by_rarity * share.expected
        THEN CAST('Infinity' AS DOUBLE)
        ELSE CAST(share.found - share.expected AS DOUBLE) / CAST(share.expected AS DOUBLE)
    END) AS value,
    max(CASE
        WHEN share.enhanced_beta IS NULL THEN NULL
        WHEN share.found * 10000000000000 > least(share.by_rarity, share.by_beta) * share.expected
        THEN 1
        ELSE 0
    END) = 1 AS violated
FROM share
GROUP BY share.class, share.class_size
