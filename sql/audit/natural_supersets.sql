-- audit: natural_supersets
-- question: Which classes lie in each box of quasi-identifiers, the large groups of (n, t)-closeness?
-- reads: class_rank(class, place, rank): of each class and quasi-identifier the rank of the class's value
--        among the values of the audited rows, from 1, ascending, NULL last; superset_bound(superset,
--        place, first, last): the ranks that a box takes of a quasi-identifier; rows of one place are
--        alternatives, a place without a row is free
-- returns: class, superset BIGINT; one row a class and box that holds it; superset 0 is the whole table
-- violation: none; a box with an absurd row gives no row: one with a NULL, with superset below 1, an
--            unknown place, or first above last. verdict_nt_closeness.sql leaves out a box of fewer than n
--            records
-- source: Li et al. 2010 (TKDE 22, 7), (n, t)-closeness: the records of a wider condition on the
--         quasi-identifiers are a natural superset of a class. A box never names a sensitive value.
WITH known AS (SELECT DISTINCT place FROM class_rank),
box AS (
    SELECT bound.superset, count(DISTINCT bound.place) AS places
    FROM superset_bound AS bound
    LEFT JOIN known ON known.place = bound.place
    GROUP BY bound.superset
    HAVING min(
        CASE
            WHEN bound.superset >= 1 AND known.place IS NOT NULL AND bound.first <= bound.last THEN 1
            ELSE 0
        END
    ) = 1
),
within AS (
    SELECT DISTINCT class_rank.class, bound.superset, bound.place
    FROM class_rank
    JOIN superset_bound AS bound
        ON bound.place = class_rank.place AND class_rank.rank BETWEEN bound.first AND bound.last
),
kept AS (SELECT class, superset, count(*) AS places FROM within GROUP BY class, superset)
SELECT kept.class, CAST(kept.superset AS BIGINT) AS superset
FROM kept
JOIN box ON box.superset = kept.superset AND box.places = kept.places
UNION ALL
SELECT DISTINCT class, CAST(0 AS BIGINT) AS superset
FROM class_rank
