-- audit: joint_flows
-- question: Which flows of mass carry a class to the whole table, and at what cost?
-- reads: class_member(class, value): value stands for a combination of sensitive values, and is never NULL;
--        joint_flow(class, from_value, to_value, mass) of a certificate; joint_distance = the rows of
--        joint_distances.sql, each pair at most once
-- returns: class, class_size BIGINT (records), mass HUGEINT (n s: s records of the class, n of the table),
--          cost HUGEINT, carried BOOLEAN
-- violation: carried = FALSE: a mass that is not positive, a pair without distance, or a value of the
--            table at which other than s records of mass stay: n members less outflow, plus inflow
-- source: Li et al. 2007, section 2: the EMD is the least cost of a flow, so n s EMD is at most the cost of
--         any flow that carries the class to the table
WITH
q AS (SELECT value, count(*) AS records FROM class_member GROUP BY value),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
total AS (SELECT CAST(sum(records) AS HUGEINT) AS n, count(*) AS needed FROM q),
moved AS (
    SELECT class, from_value AS value, -CAST(mass AS HUGEINT) AS mass FROM joint_flow
    UNION ALL
    SELECT class, to_value AS value, CAST(mass AS HUGEINT) AS mass FROM joint_flow
),
held AS (
    SELECT class_member.class, class_member.value, total.n AS mass FROM class_member CROSS JOIN total
    UNION ALL
    SELECT class, value, mass FROM moved
),
arrived AS (SELECT class, value, sum(mass) AS mass FROM held GROUP BY class, value),
balance AS (
    SELECT
        size.class,
        count(*) AS known,
        max(CASE WHEN arrived.mass = q.records * size.class_size THEN 0 ELSE 1 END) AS unbalanced
    FROM arrived
    JOIN size ON size.class = arrived.class
    JOIN q ON q.value = arrived.value
    GROUP BY size.class
),
cost AS (
    SELECT
        joint_flow.class,
        sum(CAST(joint_flow.mass AS HUGEINT) * joint_distance.distance) AS cost,
        max(CASE WHEN joint_flow.mass > 0 AND joint_distance.distance >= 0 THEN 0 ELSE 1 END) AS unpriced
    FROM joint_flow
    LEFT JOIN joint_distance
        ON joint_distance.from_value = joint_flow.from_value AND joint_distance.to_value = joint_flow.to_value
    GROUP BY joint_flow.class
)
SELECT
    size.class,
    size.class_size,
    size.class_size * total.n AS mass,
    coalesce(cost.cost, 0) AS cost,
    coalesce(balance.known = total.needed AND balance.unbalanced = 0, FALSE)
    AND coalesce(cost.unpriced, 0) = 0 AS carried
FROM size
LEFT JOIN balance ON balance.class = size.class
LEFT JOIN cost ON cost.class = size.class
CROSS JOIN total
