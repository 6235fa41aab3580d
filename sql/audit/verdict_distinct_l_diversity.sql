-- audit: verdict_distinct_l_diversity
-- question: Which classes hold too few different sensitive values?
-- reads: class_diversity = the rows of l_diversity.sql, threshold(l)
-- returns: class, class_size BIGINT (records), value DOUBLE (distinct_l), violated BOOLEAN or NULL
-- violation: distinct_l < l
-- source: Li et al. 2007, section 2, interpretation 1
SELECT
    class_diversity.class,
    class_diversity.class_size,
    CAST(class_diversity.distinct_l AS DOUBLE) AS value,
    class_diversity.distinct_l < threshold.l AS violated
FROM class_diversity
CROSS JOIN threshold
