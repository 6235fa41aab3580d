-- audit: worst_classes
-- question: Which classes break a threshold, the worst of every measure first?
-- reads: verdict as in report.sql
-- returns: the rows of verdict that are violated, and severity BIGINT: 1 for the worst class of its measure
-- violation: every row
-- source: the definitions of the measures
SELECT
    place, measure, attribute, threshold, class, class_size, value,
    row_number() OVER (
        PARTITION BY place, measure, attribute
        ORDER BY
            CASE
                WHEN measure IN (
                    't_closeness', 'joint_t_closeness', 'nt_closeness',
                    'alpha_k_anonymity', 'delta_disclosure', 'beta_likeness',
                    'enhanced_beta_likeness'
                ) THEN -value
                ELSE value
            END ASC,
            class_size DESC,
            class ASC
    ) AS severity
FROM verdict
WHERE violated
