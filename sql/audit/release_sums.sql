-- audit: release_sums
-- question: By how much do two releases differ in the sum of a numeric quasi-identifier?
-- reads: class_number(class, attribute, value DOUBLE): a row a class and numeric quasi-identifier, finite or
--        NULL; class_change = the rows of release_rows.sql
-- returns: attribute, difference DOUBLE (newer less older), size DOUBLE (what was added and taken for it,
--          without signs: rounding is of that order)
-- violation: none; release_verdict_values.sql judges them
-- source: the mean of a class times its records is the sum of their values, which a release of means so tells
SELECT
    class_number.attribute,
    coalesce(sum((class_change.newer - class_change.older) * class_number.value), 0) AS difference,
    coalesce(sum(abs((class_change.newer - class_change.older) * class_number.value)), 0) AS size
FROM class_number
JOIN class_change ON class_change.class = class_number.class
GROUP BY class_number.attribute
