-- audit: verdict_entropy_l_diversity
-- question: Which classes have too little entropy?
-- reads: class_diversity = the rows of l_diversity.sql, threshold(l)
-- returns: class, class_size BIGINT (records), value DOUBLE (entropy_l), violated BOOLEAN or NULL
-- violation: log entropy_l < log l; logarithms are rounded, so less than 10^-9 below counts as reached
-- source: Li et al. 2007, section 2, interpretation 2
SELECT
    class_diversity.class,
    class_diversity.class_size,
    class_diversity.entropy_l AS value,
    ln(class_diversity.entropy_l) < ln(CAST(threshold.l AS DOUBLE)) - 1e-9 AS violated
FROM class_diversity
CROSS JOIN threshold
