-- audit: k_anonymity_subset
-- question: Among how many records does everyone hide from somebody who knows some quasi-identifiers alone?
-- reads: subset_class(subset, class_size): a row for every combination of values of every subset of the
--        quasi-identifiers, with its records: GROUP BY GROUPING SETS, one set a subset
-- returns: one row a subset: subset, k BIGINT (records of the rarest combination), classes BIGINT
--          (combinations), records BIGINT
-- violation: k < the k that was asked for the subset
-- source: Samarati and Sweeney 1998, of subsets as in mu-Argus (Hundepool et al. 2012) and in
--         localSuppression of sdcMicro (Templ et al. 2015)
SELECT
    subset,
    min(class_size) AS k,
    count(*) AS classes,
    CAST(sum(class_size) AS BIGINT) AS records
FROM subset_class
GROUP BY subset
