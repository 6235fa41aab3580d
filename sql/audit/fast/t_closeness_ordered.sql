-- audit: t_closeness_ordered
-- question: How far is every class from the whole table in a sensitive column whose values have an order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.1: sum of |P_i - Q_i| / (m - 1), P and Q cumulated; NULL comes last.
--
-- The sum is the area between two staircases. Read sideways: the j-th of the s records of a class faces the
-- records from n (j-1) / s to n j / s of the table, and its share is the area between its rank and theirs:
-- their ranks, less its own for each of them, plus twice what it is above those that are lower. Ranks only
-- grow, so prefix sums give it, to BIGINT: one number is at most 2 n m. A record of the table weighs s.
WITH ranked AS (SELECT class, dense_rank() OVER (ORDER BY value ASC NULLS LAST) AS rank FROM class_member),
summed AS (
    SELECT class, rank, row_number() OVER along AS position, CAST(sum(rank) OVER along AS BIGINT) AS rank_sum
    FROM ranked WINDOW along AS (ORDER BY rank ASC ROWS UNBOUNDED PRECEDING)
),
higher AS (SELECT class, rank, position * rank - rank_sum AS above FROM summed),
record AS (
    SELECT class, rank, above, count(*) OVER (PARTITION BY class) AS class_size,
        row_number() OVER (PARTITION BY class ORDER BY rank ASC) AS place FROM higher
),
total AS (SELECT count(*) AS n, greatest(max(rank) - 1, 1) AS steps FROM ranked),
any_size AS (SELECT DISTINCT class_size FROM record),
slot AS (SELECT class_size, unnest(generate_series(1, class_size)) AS place FROM any_size),
slot_end AS (
    SELECT slot.class_size, slot.place, total.n,
        (total.n * slot.place + slot.class_size - 1) // slot.class_size AS position
    FROM slot CROSS JOIN total
),
slot_sum AS (
    SELECT e.class_size, e.place, e.n, e.position, e.position * e.class_size - e.n * e.place AS rest,
        here.rank, here.rank_sum
    FROM slot_end AS e JOIN summed AS here ON here.position = e.position
),
stretch AS (
    SELECT class_size, place, n, rank, rank_sum, rest, coalesce(lag(rank) OVER along, 0) AS first_rank,
        coalesce(lag(position) OVER along, 0) AS first_position,
        coalesce(lag(rank_sum) OVER along, 0) AS first_sum, coalesce(lag(rest) OVER along, 0) AS first_rest
    FROM slot_sum WINDOW along AS (PARTITION BY class_size ORDER BY place ASC)
),
faced AS (
    SELECT class_size, place, n, rank AS last_rank, first_rank, first_position, first_sum, first_rest,
        class_size * (rank_sum - first_sum) + first_rest * first_rank - rest * rank AS ranks
    FROM stretch
),
share AS (
    SELECT r.class, r.class_size, CASE
        WHEN r.rank <= f.first_rank THEN f.ranks - f.n * r.rank
        WHEN r.rank >= f.last_rank THEN f.n * r.rank - f.ranks
        ELSE f.ranks - f.n * r.rank + 2 * f.first_rest * (r.rank - f.first_rank)
            + 2 * r.class_size * (r.above - (f.first_position * r.rank - f.first_sum)) END AS area
    FROM record AS r JOIN faced AS f ON f.class_size = r.class_size AND f.place = r.place
),
class_area AS (
    SELECT class, count(*) AS class_size, CAST(sum(area) AS HUGEINT) AS area FROM share GROUP BY class
)
SELECT a.class, a.class_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * total.n * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * total.n * total.steps) AS emd
FROM class_area AS a CROSS JOIN total WHERE a.class IS NOT NULL
