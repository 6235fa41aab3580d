-- audit: nt_closeness_ordered
-- question: How far is every class from larger groups that hold it, in a sensitive column with an order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness; t_closeness_ordered.sql explains the sum. The
--         superset takes the place of the table; ranks and m are those of the whole table. NULL comes last.
WITH ranked AS (SELECT class, dense_rank() OVER (ORDER BY value ASC NULLS LAST) AS rank FROM class_member),
total AS (SELECT greatest(max(rank) - 1, 1) AS steps FROM ranked),
placed AS (
    SELECT held.superset, ranked.class, ranked.rank,
        row_number() OVER (PARTITION BY held.superset ORDER BY ranked.rank ASC) AS position
    FROM ranked JOIN class_superset AS held ON held.class = ranked.class
),
summed AS (
    SELECT superset, class, rank, position, CAST(sum(rank) OVER (
        PARTITION BY superset ORDER BY position ASC ROWS UNBOUNDED PRECEDING) AS BIGINT) AS rank_sum
    FROM placed
),
record AS (
    SELECT superset, class, rank, position, rank_sum, count(*) OVER (PARTITION BY superset, class) AS members,
        row_number() OVER (PARTITION BY superset, class ORDER BY position ASC) AS place FROM summed
),
superset_size AS (SELECT superset, max(position) AS records FROM placed GROUP BY superset),
any_size AS (SELECT DISTINCT superset, members AS class_size FROM record),
slot AS (SELECT superset, class_size, unnest(generate_series(1, class_size)) AS place FROM any_size),
slot_end AS (
    SELECT slot.superset, slot.class_size, slot.place, whole.records * slot.place AS upper,
        (whole.records * slot.place + slot.class_size - 1) // slot.class_size AS position
    FROM slot JOIN superset_size AS whole ON whole.superset = slot.superset
),
slot_sum AS (
    SELECT e.superset, e.class_size, e.place, e.upper, CAST(e.upper AS HUGEINT) * here.rank
        + CAST(e.class_size AS HUGEINT) * (here.rank_sum - here.position * here.rank) AS upper_sum
    FROM slot_end AS e JOIN summed AS here ON here.superset = e.superset AND here.position = e.position
),
stretch AS (
    SELECT superset, class_size, place, upper, upper_sum,
        coalesce(lag(upper) OVER along, 0) AS lower, coalesce(lag(upper_sum) OVER along, 0) AS lower_sum
    FROM slot_sum WINDOW along AS (PARTITION BY superset, class_size ORDER BY place ASC)
),
share AS (
    SELECT r.class, r.superset, z.class_size, CASE
        WHEN r.position * z.class_size <= z.lower
            THEN z.upper_sum - z.lower_sum - r.rank * (z.upper - z.lower)
        WHEN r.position * z.class_size >= z.upper
            THEN r.rank * (z.upper - z.lower) - z.upper_sum + z.lower_sum
        ELSE z.lower_sum + z.upper_sum - CAST(z.lower + z.upper AS HUGEINT) * r.rank
            + CAST(2 * z.class_size AS HUGEINT) * (r.position * r.rank - r.rank_sum) END AS area
    FROM record AS r JOIN stretch AS z
        ON z.superset = r.superset AND z.class_size = r.members AND z.place = r.place
),
class_area AS (
    SELECT class, superset, class_size, sum(area) AS area FROM share GROUP BY class, superset, class_size)
SELECT a.class, a.superset, a.class_size, w.records AS superset_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * w.records * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * w.records * total.steps) AS emd
FROM class_area AS a JOIN superset_size AS w ON w.superset = a.superset CROSS JOIN total
