-- audit: nt_closeness_ordered
-- question: How far is every class from larger groups that hold it, in a sensitive column with an order?
-- reads: class_member(class, value), class_superset(class, superset): sets of whole classes, one a row; the
--        whole table is one of them
-- returns: class, superset, class_size BIGINT, superset_size BIGINT (records), emd_numerator HUGEINT,
--          emd_denominator HUGEINT, emd DOUBLE; one row a class and superset
-- violation: none; verdict_nt_closeness.sql looks for a superset that is large and near enough
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness; t_closeness_ordered.sql explains the sum. The
--         superset takes the place of the table; ranks and m are those of the whole table. NULL comes last.
--
-- The rows of ../nt_closeness_ordered.sql without its windows over the whole table and over a superset, which
-- may be as large: each is one task on Spark. t_closeness_ordered.sql explains buckets, base and blocks. The
-- ranks are those of the whole table; once known, a bucket of a superset sums up those of its records, and
-- what its earlier buckets hold is added in a window over these few sums.
WITH present AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
domain AS (SELECT value, min(hash(value)) AS mark FROM class_member GROUP BY value),
total AS (SELECT greatest(count(*) - 1, 1) AS steps FROM domain),
cut AS (SELECT min({'mark': mark, 'value': value}).value AS value FROM domain GROUP BY mark % 32),
placed AS (
    SELECT d.value, CASE WHEN d.value IS NULL THEN 64 ELSE count(cut.value) END AS bucket
    FROM domain AS d LEFT JOIN cut ON cut.value <= d.value GROUP BY d.value, d.mark
),
bucket_size AS (SELECT bucket, count(*) AS ranks FROM placed GROUP BY bucket),
earlier AS (SELECT unnest(generate_series(bucket + 1, 65)) AS bucket, ranks FROM bucket_size),
bucket_start AS (SELECT bucket, CAST(sum(ranks) AS BIGINT) AS ranks FROM earlier GROUP BY bucket),
ranked AS (
    SELECT p.value, p.bucket, coalesce(b.ranks, 0) + row_number() OVER (
        PARTITION BY p.bucket ORDER BY p.value ASC NULLS LAST) AS rank
    FROM placed AS p LEFT JOIN bucket_start AS b ON b.bucket = p.bucket
),
superset_domain AS (
    SELECT held.superset, p.value, CAST(sum(p.members) AS BIGINT) AS records
    FROM present AS p JOIN class_superset AS held ON held.class = p.class GROUP BY held.superset, p.value
),
superset_size AS (
    SELECT superset, CAST(sum(records) AS BIGINT) AS records, CAST(sum(records) AS BIGINT) // 200 + 1 AS width
    FROM superset_domain GROUP BY superset
),
summed AS (
    SELECT d.superset, d.value, d.records, r.bucket, r.rank,
        CAST(sum(d.records) OVER along AS BIGINT) AS position,
        CAST(sum(d.records * r.rank) OVER along AS BIGINT) AS rank_sum
    FROM superset_domain AS d JOIN ranked AS r ON r.value IS NOT DISTINCT FROM d.value
    WINDOW along AS (PARTITION BY d.superset, r.bucket ORDER BY r.rank ASC ROWS UNBOUNDED PRECEDING)
),
bucket_sum AS (
    SELECT superset, bucket, max(position) AS position, max(rank_sum) AS rank_sum
    FROM summed GROUP BY superset, bucket
),
superset_bucket AS (
    SELECT superset, bucket, CAST(sum(position) OVER along AS BIGINT) - position AS position,
        CAST(sum(rank_sum) OVER along AS BIGINT) - rank_sum AS rank_sum
    FROM bucket_sum
    WINDOW along AS (PARTITION BY superset ORDER BY bucket ASC ROWS UNBOUNDED PRECEDING)
),
based AS (
    SELECT s.superset, s.value, s.rank, s.records, b.position + s.position AS position,
        b.rank_sum + s.rank_sum - (b.position + s.position) * s.rank AS base
    FROM summed AS s JOIN superset_bucket AS b ON b.superset = s.superset AND b.bucket = s.bucket
),
run AS (
    SELECT class, value, CAST(sum(members) OVER (PARTITION BY class) AS BIGINT) AS class_size,
        CAST(sum(members) OVER (
            PARTITION BY class ORDER BY value ASC NULLS LAST ROWS UNBOUNDED PRECEDING) AS BIGINT) AS place
    FROM present
),
slot AS (
    SELECT DISTINCT held.superset, r.class_size, r.place
    FROM run AS r JOIN class_superset AS held ON held.class = r.class
),
slot_end AS (
    SELECT slot.superset, slot.class_size, slot.place, w.width, w.records * slot.place AS upper,
        (w.records * slot.place + slot.class_size - 1) // slot.class_size AS position
    FROM slot JOIN superset_size AS w ON w.superset = slot.superset
),
met AS (
    SELECT superset, (position - 1) // width AS block, position, NULL AS rank, NULL AS base,
        class_size, place, upper
    FROM slot_end
    UNION ALL
    SELECT b.superset,
        unnest(generate_series((b.position - b.records) // w.width, (b.position - 1) // w.width)),
        b.position - b.records + 1, b.rank, b.base, NULL, NULL, NULL
    FROM based AS b JOIN superset_size AS w ON w.superset = b.superset
),
found AS (
    SELECT superset, class_size, place, upper, max(rank) OVER along AS rank, min(base) OVER along AS base
    FROM met WINDOW along AS (PARTITION BY superset, block ORDER BY position ASC RANGE UNBOUNDED PRECEDING)
),
slot_sum AS (
    SELECT superset, class_size, place, upper,
        CAST(upper AS HUGEINT) * rank + CAST(class_size AS HUGEINT) * base AS upper_sum
    FROM found WHERE class_size IS NOT NULL
),
stretch AS (
    SELECT r.class, held.superset, r.class_size, b.rank, b.position, b.base, z.upper, z.upper_sum,
        coalesce(lag(z.upper) OVER along, 0) AS lower, coalesce(lag(z.upper_sum) OVER along, 0) AS lower_sum
    FROM run AS r JOIN class_superset AS held ON held.class = r.class
    JOIN based AS b ON b.superset = held.superset AND b.value IS NOT DISTINCT FROM r.value
    JOIN slot_sum AS z ON z.superset = held.superset AND z.class_size = r.class_size AND z.place = r.place
    WINDOW along AS (PARTITION BY r.class, held.superset ORDER BY r.place ASC)
),
share AS (
    SELECT class, superset, class_size, CASE
        WHEN position * class_size <= lower
            THEN upper_sum - lower_sum - CAST(upper - lower AS HUGEINT) * rank
        WHEN position * class_size >= upper
            THEN CAST(upper - lower AS HUGEINT) * rank - upper_sum + lower_sum
        ELSE lower_sum + upper_sum - CAST(lower + upper AS HUGEINT) * rank
            - CAST(2 * class_size AS HUGEINT) * base END AS area
    FROM stretch
),
class_area AS (
    SELECT class, superset, class_size, sum(area) AS area FROM share GROUP BY class, superset, class_size
)
SELECT a.class, a.superset, a.class_size, w.records AS superset_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * w.records * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * w.records * total.steps) AS emd
FROM class_area AS a JOIN superset_size AS w ON w.superset = a.superset CROSS JOIN total
