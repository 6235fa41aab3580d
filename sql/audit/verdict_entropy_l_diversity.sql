-- audit: verdict_entropy_l_diversity
-- question: Which classes have too little entropy?
-- reads: class_diversity = the rows of l_diversity.sql, threshold(l)
-- returns: class, class_size BIGINT (records), value DOUBLE (entropy_l), violated BOOLEAN or NULL
-- violation: entropy_l < l; exact where all values are equally frequent. Else logarithms are rounded:
--            what does not exceed log l by 10^-9 counts as violated, so that no class passes by rounding
-- source: Li et al. 2007, section 2, interpretation 2
SELECT
    class_diversity.class,
    class_diversity.class_size,
    class_diversity.entropy_l AS value,
    CASE
        WHEN threshold.l = 1 OR class_diversity.entropy_l = class_diversity.distinct_l
        THEN class_diversity.distinct_l < threshold.l
        ELSE ln(class_diversity.entropy_l) < ln(CAST(threshold.l AS DOUBLE)) + 1e-9
    END AS violated
FROM class_diversity
CROSS JOIN threshold
