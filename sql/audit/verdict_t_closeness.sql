-- audit: verdict_t_closeness
-- question: Which classes are too far from the whole table?
-- reads: class_emd = the rows of a t_closeness_*.sql, threshold(t DECIMAL(18,12))
-- returns: class, class_size BIGINT (records), value DOUBLE (emd), violated BOOLEAN or NULL
-- violation: emd > t, in integers: a class at exactly t passes, one step of 10^-12 above fails
-- source: Li et al. 2007, definition 2
SELECT
    class_emd.class,
    class_emd.class_size,
    class_emd.emd AS value,
    class_emd.emd_numerator * 1000000000000
    > CAST(threshold.t * 1000000000000 AS HUGEINT) * class_emd.emd_denominator AS violated
FROM class_emd
CROSS JOIN threshold
