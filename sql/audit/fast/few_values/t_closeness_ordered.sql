-- audit: t_closeness_ordered
-- question: How far is every class from the whole table in a sensitive column whose values have an order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE,
--          distinct_l BIGINT (values of the class)
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.1: sum of |P_i - Q_i| / (m - 1), P and Q cumulated; NULL comes last.
--
-- The rows of ../t_closeness_ordered.sql, by the same sum, with distinct_l of l_diversity.sql: the records
-- of a class stand in the order of their values here. Values are counted first, and no window but that of the
-- classes is over the records: less work where values repeat, more where they do not. The ranks of the
-- first p records sum up to p * rank - above, with those of the value that the p-th has; where a slot ends,
-- it is the last one that begins there or before (met). These ends are few, which DuckDB cannot know: each
-- record reads its own (facing), since a join would keep the records in memory, and look through the few.
-- The window of the classes has narrow rows, which are written to disk where memory is short: a rank takes
-- four bytes, and what belongs to it (above) is read afterwards.
WITH domain AS (SELECT value, count(*) AS records FROM class_member GROUP BY value),
total AS (SELECT CAST(sum(records) AS BIGINT) AS n, greatest(count(*) - 1, 1) AS steps FROM domain),
ranked AS (
    SELECT value, records, CAST(row_number() OVER along AS INTEGER) AS rank,
        CAST(sum(records) OVER along AS BIGINT) AS position
    FROM domain WINDOW along AS (ORDER BY value ASC NULLS LAST ROWS UNBOUNDED PRECEDING)
),
higher AS (
    SELECT value, rank, position - records + 1 AS first, CAST(sum(position) OVER (
        ORDER BY rank ASC ROWS UNBOUNDED PRECEDING) AS BIGINT) - position AS above
    FROM ranked
),
record AS (
    SELECT m.class, h.rank, count(*) OVER (PARTITION BY m.class) AS class_size,
        row_number() OVER along AS place, dense_rank() OVER along AS value_place
    FROM class_member AS m JOIN higher AS h ON h.value IS NOT DISTINCT FROM m.value
    WINDOW along AS (PARTITION BY m.class ORDER BY h.rank ASC)
),
any_size AS (SELECT DISTINCT class_size FROM record),
slot AS (SELECT class_size, unnest(generate_series(1, class_size)) AS place FROM any_size),
met AS (
    SELECT first AS position, rank, above, NULL AS class_size, NULL AS place FROM higher
    UNION ALL
    SELECT (total.n * slot.place + slot.class_size - 1) // slot.class_size, NULL, NULL,
        slot.class_size, slot.place
    FROM slot CROSS JOIN total
),
found AS (
    SELECT class_size, place, position, max(rank) OVER along AS rank, max(above) OVER along AS above
    FROM met WINDOW along AS (ORDER BY position ASC RANGE UNBOUNDED PRECEDING)
),
slot_sum AS (
    SELECT f.class_size, f.place, total.n, f.position, f.position * f.class_size - total.n * f.place AS rest,
        f.rank, f.position * f.rank - f.above AS rank_sum
    FROM found AS f CROSS JOIN total WHERE f.class_size IS NOT NULL
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
facing AS (
    SELECT r.class, r.class_size, r.rank, r.value_place,
        (SELECT h.above FROM higher AS h WHERE h.rank = r.rank) AS above,
        (SELECT f FROM faced AS f WHERE f.class_size = r.class_size AND f.place = r.place) AS f
    FROM record AS r
),
share AS (
    SELECT class, class_size, value_place, CASE
        WHEN rank <= f.first_rank THEN f.ranks - f.n * rank
        WHEN rank >= f.last_rank THEN f.n * rank - f.ranks
        ELSE f.ranks - f.n * rank + 2 * f.first_rest * (rank - f.first_rank)
            + 2 * class_size * (above - (f.first_position * rank - f.first_sum)) END AS area
    FROM facing
),
class_area AS (
    SELECT class, count(*) AS class_size, CAST(sum(area) AS HUGEINT) AS area, max(value_place) AS distinct_l
    FROM share GROUP BY class
)
SELECT a.class, a.class_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * total.n * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * total.n * total.steps) AS emd, a.distinct_l
FROM class_area AS a CROSS JOIN total WHERE a.class IS NOT NULL
