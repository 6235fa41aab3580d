-- audit: verdict_beta_likeness
-- question: In which classes is a sensitive value much more frequent than in the table?
-- reads: value_share = the rows of value_shares.sql, threshold(beta DECIMAL(18,12))
-- returns: class, class_size BIGINT (records), value DOUBLE (largest (p - q) / q), violated BOOLEAN or NULL
-- violation: p > (1 + beta) q, in integers: a class at exactly beta passes
-- source: Cao and Karras 2012, definition 1, basic beta-likeness: only gains count
SELECT
    value_share.class,
    value_share.class_size,
    max(
        CAST(
            CAST(value_share.members AS HUGEINT) * value_share.table_size
            - CAST(value_share.table_members AS HUGEINT) * value_share.class_size AS DOUBLE
        ) / CAST(CAST(value_share.table_members AS HUGEINT) * value_share.class_size AS DOUBLE)
    ) AS value,
    max(CASE
        WHEN threshold.beta IS NULL THEN NULL
        WHEN CAST(value_share.members AS HUGEINT) * value_share.table_size * 1000000000000
            > (1000000000000 + CAST(threshold.beta * 1000000000000 AS HUGEINT)) * value_share.table_members
            * value_share.class_size
        THEN 1
        ELSE 0
    END) = 1 AS violated
FROM value_share
CROSS JOIN threshold
GROUP BY value_share.class, value_share.class_size
