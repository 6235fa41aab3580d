-- audit: joint_potentials
-- question: Which cost is the least that carries a class to the whole table?
-- reads: class_member(class, value): value stands for a combination of sensitive values, and is never NULL;
--        joint_potential(class, value, potential) of a certificate; joint_distance = the rows of
--        joint_distances.sql, each pair at most once
-- returns: class, least HUGEINT, kept BOOLEAN; one row a class that has potentials
-- violation: kept = FALSE: not one potential for every value of the table, or a potential that exceeds
--            another by more than the distance, from a value of which the class has too much to one of too
--            little
-- source: Kantorovich 1942: the sum of u_i (n members_i - s records_i) is at most n s EMD if u_i - u_j <=
--         d_ij. Values i of a surplus and j of a deficit are enough, because d is a metric: the least u_j +
--         d_ij over all j extends the potentials of the deficits to every value (McShane 1934), and gives
--         no less.
WITH
q AS (SELECT value, count(*) AS records FROM class_member GROUP BY value),
p AS (SELECT class, value, count(*) AS members FROM class_member GROUP BY class, value),
size AS (SELECT class, count(*) AS class_size FROM class_member GROUP BY class),
total AS (SELECT CAST(sum(records) AS HUGEINT) AS n, count(*) AS needed FROM q),
placed AS (
    SELECT
        given.class,
        given.value,
        CAST(given.potential AS HUGEINT) AS potential,
        coalesce(p.members, 0) * total.n - q.records * size.class_size AS surplus
    FROM joint_potential AS given
    JOIN size ON size.class = given.class
    LEFT JOIN q ON q.value = given.value
    LEFT JOIN p ON p.class = given.class AND p.value = given.value
    CROSS JOIN total
),
steep AS (
    SELECT
        high.class,
        max(CASE WHEN high.potential - low.potential <= joint_distance.distance THEN 0 ELSE 1 END) AS steeper
    FROM placed AS high
    JOIN placed AS low ON low.class = high.class
    LEFT JOIN joint_distance ON joint_distance.from_value = high.value AND joint_distance.to_value = low.value
    WHERE high.surplus > 0 AND low.surplus < 0
    GROUP BY high.class
),
dual AS (
    SELECT
        class,
        sum(potential * surplus) AS least,
        count(*) AS given,
        count(DISTINCT CASE WHEN surplus IS NOT NULL AND potential IS NOT NULL THEN value END) AS known
    FROM placed
    GROUP BY class
)
SELECT
    dual.class,
    coalesce(dual.least, 0) AS least,
    dual.given = total.needed AND dual.known = total.needed AND coalesce(steep.steeper, 0) = 0 AS kept
FROM dual
LEFT JOIN steep ON steep.class = dual.class
CROSS JOIN total
