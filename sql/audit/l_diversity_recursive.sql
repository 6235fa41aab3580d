-- audit: l_diversity_recursive
-- question: For the c that was asked for, up to which l is every class recursive (c, l)-diverse?
-- reads: class_member(class, value), threshold(c HUGEINT in steps of 10^-12)
-- returns: class, class_size BIGINT (records), recursive_l BIGINT (0 where not even l = 1 is reached)
-- violation: recursive_l < the l that was asked for
-- source: Machanavajjhala et al. 2007; Li et al. 2007, section 2: r_1 < c (r_l + ... + r_m)
--
-- The sums shrink as l grows, so the number of l that pass is the largest of them.
WITH held AS (
    SELECT class, value, count(*) AS members
    FROM class_member
    GROUP BY class, value
),
tail AS (
    SELECT
        class,
        members,
        sum(members) OVER (
            PARTITION BY class ORDER BY members DESC, value ASC NULLS LAST
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS members_from_here,
        max(members) OVER (PARTITION BY class) AS most_frequent
    FROM held
)
SELECT
    tail.class,
    CAST(sum(tail.members) AS BIGINT) AS class_size,
    count(*) FILTER (
        WHERE CAST(tail.most_frequent AS HUGEINT) * 1000000000000
        < threshold.c * CAST(tail.members_from_here AS HUGEINT)
    ) AS recursive_l
FROM tail
CROSS JOIN threshold
GROUP BY tail.class
