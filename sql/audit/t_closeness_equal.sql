-- audit: t_closeness_equal
-- question: How far is every class from the whole table in a sensitive column whose values have no order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.2, equal distance: sum of |p_i - q_i| / 2; NULL is a value.
--
-- Values that a class does not hold need no row: all q sum up to 1, so their part is what the others leave.
WITH present AS (
    SELECT class, value, count(*) AS members
    FROM class_member
    GROUP BY class, value
),
domain AS (
    SELECT value, CAST(sum(members) AS BIGINT) AS records
    FROM present
    GROUP BY value
),
total AS (
    SELECT CAST(sum(records) AS BIGINT) AS n
    FROM domain
),
class_size AS (
    SELECT class, CAST(sum(members) AS BIGINT) AS members
    FROM present
    GROUP BY class
),
difference AS (
    SELECT
        present.class,
        class_size.members AS class_size,
        abs(total.n * present.members - class_size.members * domain.records)
        - class_size.members * domain.records AS gain
    FROM present
    JOIN class_size ON class_size.class = present.class
    JOIN domain ON domain.value IS NOT DISTINCT FROM present.value
    CROSS JOIN total
),
class_gain AS (
    SELECT class, class_size, sum(gain) AS gain
    FROM difference
    GROUP BY class, class_size
)
SELECT
    class_gain.class,
    class_gain.class_size,
    class_gain.gain + class_gain.class_size * total.n AS emd_numerator,
    2 * CAST(class_gain.class_size AS HUGEINT) * total.n AS emd_denominator,
    CAST(class_gain.gain + class_gain.class_size * total.n AS DOUBLE)
    / (2 * CAST(class_gain.class_size AS DOUBLE) * total.n) AS emd
FROM class_gain
CROSS JOIN total
