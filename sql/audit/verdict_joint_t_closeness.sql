-- audit: verdict_joint_t_closeness
-- question: Which classes are too far from the whole table in several sensitive columns together?
-- reads: class_joint_emd = the rows of joint_t_closeness.sql, threshold(t DECIMAL(18,12))
-- returns: class, class_size BIGINT (records), value DOUBLE (emd), violated BOOLEAN or NULL
-- violation: emd > t, in integers: a class at exactly t passes, one step of 10^-12 above fails; so does a
--            class whose certificate is not proved
-- source: Li et al. 2007, definition 2 and section 8
SELECT
    class_joint_emd.class,
    class_joint_emd.class_size,
    class_joint_emd.emd AS value,
    NOT class_joint_emd.proved OR class_joint_emd.emd_numerator * 1000000000000
    > CAST(threshold.t * 1000000000000 AS HUGEINT) * class_joint_emd.emd_denominator AS violated
FROM class_joint_emd
CROSS JOIN threshold
