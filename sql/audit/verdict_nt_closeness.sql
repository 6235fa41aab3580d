-- audit: verdict_nt_closeness
-- question: Which classes are too far from every superset of at least n records?
-- reads: class_size(class, class_size), class_superset_emd = the rows of an nt_closeness_*.sql,
--        threshold(n, t DECIMAL(18,12))
-- returns: class, class_size BIGINT (records), superset_size BIGINT (records of the nearest superset that is
--          large enough; 0: none), value DOUBLE (emd to it; Infinity: none), violated BOOLEAN
-- violation: no superset has at least n records and emd <= t, in integers: a class at exactly t passes, one
--            step of 10^-12 above fails. A class of n records is its own superset, at distance 0.
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness
WITH candidate AS (
    SELECT
        distance.class,
        distance.superset_size,
        distance.emd,
        distance.emd_numerator * 1000000000000
        > CAST(threshold.t * 1000000000000 AS HUGEINT) * distance.emd_denominator AS too_far
    FROM class_superset_emd AS distance
    CROSS JOIN threshold
    WHERE distance.superset_size >= threshold.n
    UNION ALL
    SELECT
        class_size.class,
        class_size.class_size AS superset_size,
        CAST(0 AS DOUBLE) AS emd,
        FALSE AS too_far
    FROM class_size
    CROSS JOIN threshold
    WHERE class_size.class_size >= threshold.n
),
ordered AS (
    SELECT
        class,
        superset_size,
        emd,
        too_far,
        row_number() OVER (PARTITION BY class ORDER BY too_far ASC, emd ASC, superset_size ASC) AS place
    FROM candidate
),
nearest AS (
    SELECT class, superset_size, emd, too_far
    FROM ordered
    WHERE place = 1
)
SELECT
    class_size.class,
    class_size.class_size,
    coalesce(nearest.superset_size, 0) AS superset_size,
    coalesce(nearest.emd, CAST('Infinity' AS DOUBLE)) AS value,
    coalesce(nearest.too_far, TRUE) AS violated
FROM class_size
LEFT JOIN nearest ON nearest.class = class_size.class
