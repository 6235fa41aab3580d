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
class_size AS (
    SELECT class, CAST(sum(members) AS BIGINT) AS class_size
    FROM present
    GROUP BY class
),
held AS (
    SELECT class_size.class, class_size.class_size, present.value, present.members
    FROM class_size
    JOIN present ON present.class = class_size.class
),
domain AS (
    SELECT value, CAST(sum(members) AS BIGINT) AS records
    FROM held
    GROUP BY value
),
total AS (SELECT CAST(sum(class_size) AS BIGINT) AS n FROM class_size),
class_gain AS (
    SELECT
        held.class,
        held.class_size,
        total.n,
        sum(
            abs(total.n * held.members - held.class_size * domain.records)
            - held.class_size * domain.records
        ) AS gain
    FROM held
    JOIN domain ON domain.value IS NOT DISTINCT FROM held.value
    CROSS JOIN total
    GROUP BY held.class, held.class_size, total.n
)
SELECT
    class,
    class_size,
    gain + CAST(class_size AS HUGEINT) * n AS emd_numerator,
    2 * CAST(class_size AS HUGEINT) * n AS emd_denominator,
    CAST(gain + class_size * n AS DOUBLE) / (2 * CAST(class_size AS DOUBLE) * n) AS emd
FROM class_gain
