-- audit: t_closeness_ordered
-- question: How far is every class from the whole table in a sensitive column whose values have an order?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), emd_numerator HUGEINT, emd_denominator HUGEINT, emd DOUBLE
-- violation: emd > t, decided as emd_numerator > t * emd_denominator in integers
-- source: Li et al. 2007, section 5.1: sum of |P_i - Q_i| / (m - 1), P and Q cumulated; NULL comes last.
--
-- The rows of ../t_closeness_ordered.sql, which numbers all records in one window: on Spark that is one task.
-- Here every window is within a bucket, a block or a class, and equal values of a class are one row (run).
--
-- Buckets. Up to 63 values (hash % 32 is -31 to 31) cut the others into ranges; that of NULL is 64. Each is
-- numbered by itself; then what the earlier ones hold is added: ranks, records, and area, the sum over values
-- of the position where each ends. Any cuts give the same rows, if they are the same wherever Spark makes
-- them anew: so the least hash of values that a collation calls equal. (To 65: a series must not be empty.)
-- The first p records of the table have ranks that sum up to p * rank + base, with those of the p-th record.
--
-- Blocks. Of a class with s records the first j face the first n j / s of the table. Positions are cut into
-- blocks, where each such end (slot) meets the last value that begins before it, for its rank and base.
-- The share of a value is the area between its rank and those that it faces, as in the other text.
WITH present AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
domain AS (
    SELECT value, count(*) AS records, min(hash(value)) AS mark FROM class_member GROUP BY value
),
total AS (
    SELECT CAST(sum(records) AS BIGINT) AS n, CAST(sum(records) AS BIGINT) // 200 + 1 AS width,
        greatest(count(*) - 1, 1) AS steps
    FROM domain
),
cut AS (SELECT min({'mark': mark, 'value': value}).value AS value FROM domain GROUP BY mark % 32),
placed AS (
    SELECT d.value, d.records, CASE WHEN d.value IS NULL THEN 64 ELSE count(cut.value) END AS bucket
    FROM domain AS d LEFT JOIN cut ON cut.value <= d.value GROUP BY d.value, d.records
),
numbered AS (
    SELECT value, records, bucket, row_number() OVER along AS rank,
        CAST(sum(records) OVER along AS BIGINT) AS position
    FROM placed
    WINDOW along AS (PARTITION BY bucket ORDER BY value ASC NULLS LAST ROWS UNBOUNDED PRECEDING)
),
summed AS (
    SELECT value, records, bucket, rank, position, CAST(sum(position) OVER (
        PARTITION BY bucket ORDER BY value ASC NULLS LAST ROWS UNBOUNDED PRECEDING) AS BIGINT) AS area
    FROM numbered
),
bucket_sum AS (
    SELECT bucket, max(rank) AS ranks, max(position) AS records, max(area) AS area FROM summed GROUP BY bucket
),
earlier AS (
    SELECT unnest(generate_series(bucket + 1, 65)) AS bucket, bucket AS place, ranks, records, area
    FROM bucket_sum
),
earlier_sum AS (
    SELECT bucket, ranks, records, area, CAST(sum(records) OVER (
        PARTITION BY bucket ORDER BY place ASC ROWS UNBOUNDED PRECEDING) AS BIGINT) - records AS position
    FROM earlier
),
bucket_start AS (
    SELECT bucket, CAST(sum(ranks) AS BIGINT) AS ranks, CAST(sum(records) AS BIGINT) AS records,
        CAST(sum(area + position * ranks) AS BIGINT) AS area
    FROM earlier_sum GROUP BY bucket
),
based AS (
    SELECT s.value, s.records, coalesce(b.ranks, 0) + s.rank AS rank,
        coalesce(b.records, 0) + s.position AS position,
        s.position - s.area - coalesce(b.records, 0) * (s.rank - 1) - coalesce(b.area, 0) AS base
    FROM summed AS s LEFT JOIN bucket_start AS b ON b.bucket = s.bucket
),
run AS (
    SELECT class, value, CAST(sum(members) OVER (PARTITION BY class) AS BIGINT) AS class_size,
        CAST(sum(members) OVER (
            PARTITION BY class ORDER BY value ASC NULLS LAST ROWS UNBOUNDED PRECEDING) AS BIGINT) AS place
    FROM present
),
slot AS (SELECT DISTINCT class_size, place FROM run),
slot_end AS (
    SELECT slot.class_size, slot.place, total.width, total.n * slot.place AS upper,
        (total.n * slot.place + slot.class_size - 1) // slot.class_size AS position
    FROM slot CROSS JOIN total
),
met AS (
    SELECT (position - 1) // width AS block, position, NULL AS rank, NULL AS base, class_size, place, upper
    FROM slot_end
    UNION ALL
    SELECT unnest(generate_series((b.position - b.records) // total.width, (b.position - 1) // total.width)),
        b.position - b.records + 1, b.rank, b.base, NULL, NULL, NULL
    FROM based AS b CROSS JOIN total
),
found AS (
    SELECT class_size, place, upper, max(rank) OVER along AS rank, min(base) OVER along AS base
    FROM met WINDOW along AS (PARTITION BY block ORDER BY position ASC RANGE UNBOUNDED PRECEDING)
),
slot_sum AS (
    SELECT class_size, place, upper,
        CAST(upper AS HUGEINT) * rank + CAST(class_size AS HUGEINT) * base AS upper_sum
    FROM found WHERE class_size IS NOT NULL
),
stretch AS (
    SELECT r.class, r.class_size, b.rank, b.position, b.base, z.upper, z.upper_sum,
        coalesce(lag(z.upper) OVER along, 0) AS lower, coalesce(lag(z.upper_sum) OVER along, 0) AS lower_sum
    FROM run AS r JOIN based AS b ON b.value IS NOT DISTINCT FROM r.value
    JOIN slot_sum AS z ON z.class_size = r.class_size AND z.place = r.place
    WINDOW along AS (PARTITION BY r.class ORDER BY r.value ASC NULLS LAST)
),
share AS (
    SELECT class, class_size, CASE
        WHEN position * class_size <= lower
            THEN upper_sum - lower_sum - CAST(upper - lower AS HUGEINT) * rank
        WHEN position * class_size >= upper
            THEN CAST(upper - lower AS HUGEINT) * rank - upper_sum + lower_sum
        ELSE lower_sum + upper_sum - CAST(lower + upper AS HUGEINT) * rank
            - CAST(2 * class_size AS HUGEINT) * base END AS area
    FROM stretch
),
class_area AS (SELECT class, class_size, sum(area) AS area FROM share GROUP BY class, class_size)
SELECT a.class, a.class_size, a.area AS emd_numerator,
    CAST(a.class_size AS HUGEINT) * total.n * total.steps AS emd_denominator,
    CAST(a.area AS DOUBLE) / (CAST(a.class_size AS DOUBLE) * total.n * total.steps) AS emd
FROM class_area AS a CROSS JOIN total
WHERE a.class IS NOT NULL
