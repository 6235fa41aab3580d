-- audit: nt_closeness_ordered
-- question: How far is every class from larger groups that hold it, in a sensitive column with an order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness; t_closeness_ordered.sql explains the sum. The
--         superset takes the place of the table; ranks and m are those of the whole table. NULL comes last.
WITH present AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
ranked AS (SELECT class, members, dense_rank() OVER (ORDER BY value ASC NULLS LAST) AS rank FROM present),
total AS (SELECT greatest(max(rank) - 1, 1) AS steps FROM ranked),
run AS (
    SELECT class, rank, members, CAST(sum(members) OVER (PARTITION BY class) AS BIGINT) AS class_size,
        CAST(sum(members) OVER along AS BIGINT) AS place
    FROM ranked WINDOW along AS (PARTITION BY class ORDER BY rank ASC ROWS UNBOUNDED PRECEDING)
),
held AS (
    SELECT one.superset, r.class, r.class_size, r.rank, r.members, r.place - r.members AS begins, r.place
    FROM run AS r JOIN class_superset AS one ON one.class = r.class
),
domain AS (SELECT superset, rank, CAST(sum(members) AS BIGINT) AS records FROM held GROUP BY superset, rank),
summed AS (
    SELECT superset, rank, CAST(sum(records) OVER along AS BIGINT) AS position,
        CAST(sum(records * rank) OVER along AS BIGINT) AS rank_sum
    FROM domain WINDOW along AS (PARTITION BY superset ORDER BY rank ASC ROWS UNBOUNDED PRECEDING)
),
superset_size AS (SELECT superset, max(position) AS records FROM summed GROUP BY superset),
slot AS (SELECT superset, class_size, place FROM held UNION SELECT superset, class_size, 0 FROM held),
met AS (
    SELECT s.superset, s.class_size, s.place, NULL AS rank, CAST(w.records * s.place AS HUGEINT) AS mass,
        (w.records * s.place + s.class_size - 1) // s.class_size AS position
    FROM slot AS s JOIN superset_size AS w ON w.superset = s.superset
    UNION ALL SELECT superset, NULL, NULL, rank, NULL, position FROM summed
),
slot_end AS (
    SELECT superset, class_size, place, mass, min(rank) OVER up AS rank FROM met
    WINDOW up AS (PARTITION BY superset ORDER BY position DESC, rank ASC NULLS LAST ROWS UNBOUNDED PRECEDING)
),
slot_sum AS (
    SELECT e.superset, e.class_size, e.place, e.mass, e.mass * e.rank
        + CAST(e.class_size AS HUGEINT) * (here.rank_sum - here.position * here.rank) AS ranks
    FROM slot_end AS e JOIN summed AS here ON here.superset = e.superset AND here.rank = e.rank
),
share AS (
    SELECT h.class, h.superset, h.class_size, CASE
        WHEN own.position * h.class_size <= a.mass THEN z.ranks - a.ranks - h.rank * (z.mass - a.mass)
        WHEN own.position * h.class_size >= z.mass THEN h.rank * (z.mass - a.mass) - z.ranks + a.ranks
        ELSE a.ranks + z.ranks - (a.mass + z.mass) * h.rank
            + CAST(2 * h.class_size AS HUGEINT) * (own.position * h.rank - own.rank_sum) END AS area
    FROM held AS h JOIN summed AS own ON own.superset = h.superset AND own.rank = h.rank
    JOIN slot_sum AS a ON a.superset = h.superset AND a.class_size = h.class_size AND a.place = h.begins
    JOIN slot_sum AS z ON z.superset = h.superset AND z.class_size = h.class_size AND z.place = h.place
),
class_area AS (
    SELECT class, superset, class_size, sum(area) AS area FROM share GROUP BY class, superset, class_size)
SELECT a.class, a.superset, a.class_size, w.records AS superset_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * w.records * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * w.records * total.steps) AS emd
FROM class_area AS a JOIN superset_size AS w ON w.superset = a.superset CROSS JOIN total
