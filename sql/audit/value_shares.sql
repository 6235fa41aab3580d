-- audit: value_shares
-- question: How frequent is each sensitive value in a class that holds it, and in the table?
-- reads: class_member(class, value)
-- returns: class, value, class_size BIGINT (records), members BIGINT (records of the class with the value),
--          table_members BIGINT (records of the table with it), table_size BIGINT (records), missing BIGINT
--          (different values of the table that the class lacks); one row a class and value that it holds
-- violation: none; the verdicts on alpha, delta and beta judge p = members / class_size and
--            q = table_members / table_size
-- source: Wong et al. 2006; Brickell and Shmatikov 2008; Cao and Karras 2012. NULL is a value.
WITH held AS (
    SELECT class, value, count(*) AS members
    FROM class_member
    GROUP BY class, value
),
class_size AS (
    SELECT class, CAST(sum(members) AS BIGINT) AS class_size, count(*) AS different
    FROM held
    GROUP BY class
),
domain AS (
    SELECT value, CAST(sum(members) AS BIGINT) AS records
    FROM held
    GROUP BY value
),
total AS (SELECT CAST(sum(records) AS BIGINT) AS n, count(*) AS different FROM domain)
SELECT
    held.class,
    held.value,
    class_size.class_size,
    held.members,
    domain.records AS table_members,
    total.n AS table_size,
    total.different - class_size.different AS missing
FROM held
JOIN class_size ON class_size.class = held.class
JOIN domain ON domain.value IS NOT DISTINCT FROM held.value
CROSS JOIN total
