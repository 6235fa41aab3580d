-- audit: joint_distances
-- question: How far apart are combinations of values of several sensitive columns?
-- reads: joint_pair(from_value, to_value); joint_place(value, attribute, place, steps, ordered): where the
--        part of a combination stands among the values of its column, from 0; steps is the highest place of
--        an ordered column, at least 1, and 1 of others; joint_kind(largest): TRUE for the greatest
--        distance of the columns, FALSE for their mean; joint_scale(denominator)
-- returns: from_value, to_value, distance HUGEINT in multiples of 1 / denominator; no row unless there is
--          one denominator, from 1 to 2^40, which gives whole distances
-- violation: none; joint_flows.sql and joint_potentials.sql read the distances
-- source: Li et al. 2007, sections 5 and 8: |place_i - place_j| / steps where a column is ordered, else 0
--         or 1. Both the greatest distance and the mean of the columns (their sum by their number) are
--         metrics in 0..1.
WITH
part AS (SELECT count(DISTINCT attribute) AS attributes FROM joint_place),
scale AS (SELECT count(*) AS scales, max(denominator) AS denominator FROM joint_scale),
step AS (
    SELECT
        joint_place.attribute,
        max(CASE WHEN joint_kind.largest THEN 1 ELSE part.attributes END * joint_place.steps) AS steps
    FROM joint_place
    CROSS JOIN joint_kind
    CROSS JOIN part
    GROUP BY joint_place.attribute
),
fitting AS (
    SELECT max(scale.denominator) AS denominator
    FROM step
    CROSS JOIN scale
    HAVING max(scale.scales) = 1 AND max(scale.denominator % step.steps) = 0
    AND min(scale.denominator) BETWEEN 1 AND 1099511627776
),
unit AS (
    SELECT step.attribute, CAST(fitting.denominator / step.steps AS BIGINT) AS unit
    FROM step
    CROSS JOIN fitting
),
ground AS (
    SELECT
        pair.from_value,
        pair.to_value,
        CAST(CASE
            WHEN a.ordered THEN abs(a.place - b.place)
            WHEN a.place = b.place THEN 0
            ELSE 1
        END * unit.unit AS HUGEINT) AS distance
    FROM joint_pair AS pair
    JOIN joint_place AS a ON a.value = pair.from_value
    JOIN joint_place AS b ON b.value = pair.to_value AND b.attribute = a.attribute
    JOIN unit ON unit.attribute = a.attribute
)
SELECT
    ground.from_value,
    ground.to_value,
    CASE WHEN joint_kind.largest THEN max(ground.distance) ELSE sum(ground.distance) END AS distance
FROM ground
CROSS JOIN joint_kind
GROUP BY ground.from_value, ground.to_value, joint_kind.largest
