-- audit: verdict_alpha_k_anonymity
-- question: In which classes is a sensitive value too frequent?
-- reads: value_share = the rows of value_shares.sql, threshold(alpha DECIMAL(18,12), named VARCHAR): named is
--        the value that alpha bounds, as text; NULL for every value
-- returns: class, class_size BIGINT (records), named, value DOUBLE (largest share), violated BOOLEAN or NULL
-- violation: records with the value > alpha * class_size, in integers: a class at exactly alpha passes
-- source: Wong et al. 2006, (alpha, k)-anonymity: the general model, and the simple one for a named value
WITH frequent AS (
    SELECT
        value_share.class,
        value_share.class_size,
        threshold.named,
        threshold.alpha,
        max(CASE
            WHEN threshold.named IS NULL OR CAST(value_share.value AS VARCHAR) = threshold.named
            THEN value_share.members
            ELSE 0
        END) AS members
    FROM value_share
    CROSS JOIN threshold
    GROUP BY value_share.class, value_share.class_size, threshold.named, threshold.alpha
)
SELECT
    frequent.class,
    frequent.class_size,
    frequent.named,
    CAST(frequent.members AS DOUBLE) / CAST(frequent.class_size AS DOUBLE) AS value,
    CAST(frequent.members AS HUGEINT) * 1000000000000
    > CAST(frequent.alpha * 1000000000000 AS HUGEINT) * frequent.class_size AS violated
FROM frequent
