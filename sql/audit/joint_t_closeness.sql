-- audit: joint_t_closeness
-- question: How far is every class from the whole table in several sensitive columns together?
-- reads: joint_upper = the rows of joint_flows.sql; joint_lower = the rows of joint_potentials.sql;
--        joint_scale(denominator), that of the distances
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE,
--          proved BOOLEAN, exact BOOLEAN
-- violation: emd > t or not proved, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 8. A flow proves that the EMD is at most its cost, potentials prove that
--         it is at least their sum. emd is the cost of the flows, or 1 where they do not carry the class to
--         the table. proved: the EMD is at most emd, and emd itself if the class has potentials. exact: the
--         class has them.
WITH scale AS (SELECT coalesce(max(denominator), 0) AS denominator FROM joint_scale),
bound AS (
    SELECT
        joint_upper.class,
        joint_upper.class_size,
        joint_upper.cost,
        joint_upper.mass * scale.denominator AS whole,
        joint_upper.carried AND scale.denominator > 0 AS carried,
        joint_lower.class IS NOT NULL AS given,
        coalesce(joint_lower.kept AND joint_lower.least = joint_upper.cost, FALSE) AS equal
    FROM joint_upper
    LEFT JOIN joint_lower ON joint_lower.class = joint_upper.class
    CROSS JOIN scale
)
SELECT
    class,
    class_size,
    CASE WHEN carried THEN cost ELSE 1 END AS emd_numerator,
    CASE WHEN carried THEN whole ELSE 1 END AS emd_denominator,
    CASE WHEN carried THEN CAST(cost AS DOUBLE) / whole ELSE 1 END AS emd,
    carried AND (equal OR NOT given) AS proved,
    carried AND equal AS exact
FROM bound
