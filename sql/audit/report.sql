-- audit: report
-- question: Does the table pass every measure, and if not, how many classes and records break it?
-- reads: verdict(place, measure, attribute, threshold, class, class_size, value, violated), one row a class
--        and measure; place orders the measures
-- returns: place, measure, attribute, threshold, value DOUBLE (of the worst class), classes BIGINT,
--          violations BIGINT (classes), records BIGINT (in those classes), passed BOOLEAN; the last three
--          are NULL for a measure without threshold
-- violation: passed = FALSE
-- source: the definitions of the measures
SELECT
    place,
    measure,
    attribute,
    threshold,
    CASE
        WHEN measure IN (
            't_closeness', 'joint_t_closeness', 'nt_closeness',
            'alpha_k_anonymity', 'delta_disclosure', 'delta_disclosure_present',
            'beta_likeness', 'enhanced_beta_likeness'
        ) THEN max(value)
        ELSE min(value)
    END AS value,
    count(*) AS classes,
    CAST(sum(CASE WHEN violated THEN 1 WHEN NOT violated THEN 0 END) AS BIGINT) AS violations,
    CAST(sum(CASE WHEN violated THEN class_size WHEN NOT violated THEN 0 END) AS BIGINT) AS records,
    max(CASE WHEN violated THEN 1 WHEN NOT violated THEN 0 END) = 0 AS passed
FROM verdict
GROUP BY place, measure, attribute, threshold
