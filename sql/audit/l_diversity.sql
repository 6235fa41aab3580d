-- audit: l_diversity
-- question: How varied are the sensitive values within every class?
-- reads: class_member(class, value)
-- returns: class, class_size BIGINT (records), distinct_l BIGINT, entropy_l DOUBLE (= exp H; distinct_l where
--          all values are equally frequent, less where not, however little),
--          recursive_c MAP from l to r_1 / (r_l + ... + r_m): the class needs a larger c
-- violation: distinct_l < l; entropy_l < l; for recursive (c, l): c <= recursive_c[l], or l not in the map
-- source: Machanavajjhala et al. 2007; Li et al. 2007, section 2. NULL is a value like any other.
WITH held AS (
    SELECT class, value, count(*) AS members
    FROM class_member
    GROUP BY class, value
),
descending AS (
    SELECT
        class,
        members,
        row_number() OVER (PARTITION BY class ORDER BY members DESC, value ASC NULLS LAST) AS place
    FROM held
),
tail AS (
    SELECT
        class,
        members,
        place,
        sum(members) OVER (
            PARTITION BY class ORDER BY place ASC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS members_from_here,
        max(members) OVER (PARTITION BY class) AS most_frequent
    FROM descending
)
SELECT
    class,
    CAST(sum(members) AS BIGINT) AS class_size,
    count(*) AS distinct_l,
    CASE
        WHEN min(members) = max(members) THEN CAST(count(*) AS DOUBLE)
        ELSE least(
            CAST(sum(members) AS DOUBLE) / exp(sum(members * ln(members)) / sum(members)),
            count(*) * CAST(0.999999999999 AS DOUBLE)
        )
    END AS entropy_l,
    map_from_entries(
        list({'l': place, 'c': CAST(most_frequent AS DOUBLE) / CAST(members_from_here AS DOUBLE)})
    ) AS recursive_c
FROM tail
GROUP BY class
