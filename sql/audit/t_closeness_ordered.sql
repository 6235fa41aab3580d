-- audit: t_closeness_ordered
-- question: How far is every class from the whole table in a sensitive column whose values have an order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.1: sum of |P_i - Q_i| / (m - 1), P and Q cumulated; NULL comes last.
--
-- The sum is the area between two staircases. Read sideways: the j-th of the s records of a class faces the
-- records from n (j-1) / s to n j / s of the table, and its share is the area between its rank and theirs.
-- Ranks only grow, so prefix sums of ranks give it: the record's own position is where the sign turns.
WITH ranked AS (
    SELECT class, dense_rank() OVER in_order AS rank, row_number() OVER in_order AS position
    FROM class_member
    WINDOW in_order AS (ORDER BY value ASC NULLS LAST)
),
summed AS (
    SELECT class, rank, position,
        CAST(sum(rank) OVER (ORDER BY position ASC ROWS UNBOUNDED PRECEDING) AS BIGINT) AS rank_sum
    FROM ranked
),
record AS (
    SELECT class, rank, position, rank_sum,
        row_number() OVER (PARTITION BY class ORDER BY position ASC) AS place
    FROM summed
),
size AS (SELECT class, count(*) AS members FROM class_member GROUP BY class),
total AS (SELECT max(position) AS n, greatest(max(rank) - 1, 1) AS steps FROM summed),
any_size AS (SELECT DISTINCT members AS class_size FROM size),
slot AS (SELECT class_size, unnest(generate_series(1, class_size)) AS place FROM any_size),
slot_end AS (
    SELECT slot.class_size, slot.place, total.n * slot.place AS upper,
        (total.n * slot.place + slot.class_size - 1) // slot.class_size AS position
    FROM slot CROSS JOIN total
),
slot_sum AS (
    SELECT e.class_size, e.place, e.upper, CAST(e.upper AS HUGEINT) * here.rank
        + CAST(e.class_size AS HUGEINT) * (here.rank_sum - here.position * here.rank) AS upper_sum
    FROM slot_end AS e JOIN summed AS here ON here.position = e.position
),
stretch AS (
    SELECT class_size, place, upper, upper_sum,
        coalesce(lag(upper) OVER along, 0) AS lower, coalesce(lag(upper_sum) OVER along, 0) AS lower_sum
    FROM slot_sum WINDOW along AS (PARTITION BY class_size ORDER BY place ASC)
),
share AS (
    SELECT r.class, z.class_size, CASE
        WHEN r.position * z.class_size <= z.lower
            THEN z.upper_sum - z.lower_sum - r.rank * (z.upper - z.lower)
        WHEN r.position * z.class_size >= z.upper
            THEN r.rank * (z.upper - z.lower) - z.upper_sum + z.lower_sum
        ELSE z.lower_sum + z.upper_sum - CAST(z.lower + z.upper AS HUGEINT) * r.rank
            + CAST(2 * z.class_size AS HUGEINT) * (r.position * r.rank - r.rank_sum) END AS area
    FROM record AS r JOIN size ON size.class = r.class
    JOIN stretch AS z ON z.class_size = size.members AND z.place = r.place
),
class_area AS (SELECT class, class_size, sum(area) AS area FROM share GROUP BY class, class_size)
SELECT a.class, a.class_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * total.n * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * total.n * total.steps) AS emd
FROM class_area AS a CROSS JOIN total
