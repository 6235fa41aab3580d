-- audit: verdict_k_anonymity_subset
-- question: Which combinations of values of some quasi-identifiers are too rare?
-- reads: subset_class(subset, class, class_size), threshold(subset, k)
-- returns: subset, class, class_size BIGINT (records), value DOUBLE (k of the combination), violated BOOLEAN
--          or NULL
-- violation: class_size < k of the subset
-- source: Samarati and Sweeney 1998, of subsets as in k_anonymity_subset.sql
SELECT
    subset_class.subset,
    subset_class.class,
    subset_class.class_size,
    CAST(subset_class.class_size AS DOUBLE) AS value,
    subset_class.class_size < threshold.k AS violated
FROM subset_class
JOIN threshold ON threshold.subset = subset_class.subset
