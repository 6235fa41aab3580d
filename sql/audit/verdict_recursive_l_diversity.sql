-- audit: verdict_recursive_l_diversity
-- question: Which classes are not recursive (c, l)-diverse?
-- reads: class_recursion = the rows of l_diversity_recursive.sql, threshold(l)
-- returns: class, class_size BIGINT (records), value DOUBLE (recursive_l), violated BOOLEAN or NULL
-- violation: recursive_l < l
-- source: Li et al. 2007, section 2, interpretation 3
SELECT
    class_recursion.class,
    class_recursion.class_size,
    CAST(class_recursion.recursive_l AS DOUBLE) AS value,
    class_recursion.recursive_l < threshold.l AS violated
FROM class_recursion
CROSS JOIN threshold
