-- audit: journalist_risk
-- question: Among how many people of the population does each class hide?
-- reads: class_member(class, value), population(class): one row a person, who stands in one of these classes
-- returns: class, class_size BIGINT (records), population_size BIGINT (people in the class), journalist_risk
--          DOUBLE (1 / population_size; 1 where nobody is there), violated BOOLEAN
-- violation: population_size < class_size, 0 for a class that is missing in the population: a population
--            holds everybody in the release, so the risk is not known there
-- source: El Emam and Dankar 2008, journalist re-identification risk, as in ARX
WITH class_size AS (
    SELECT class, count(*) AS members
    FROM class_member
    GROUP BY class
),
population_size AS (
    SELECT person.class, count(*) AS members
    FROM population AS person
    GROUP BY person.class
)
SELECT
    class_size.class,
    class_size.members AS class_size,
    coalesce(population_size.members, 0) AS population_size,
    1 / CAST(coalesce(population_size.members, 1) AS DOUBLE) AS journalist_risk,
    coalesce(population_size.members, 0) < class_size.members AS violated
FROM class_size
LEFT JOIN population_size ON population_size.class = class_size.class
