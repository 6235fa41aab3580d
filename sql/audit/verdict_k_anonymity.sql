-- audit: verdict_k_anonymity
-- question: Which classes are too small?
-- reads: class_size(class, class_size), threshold(k)
-- returns: class, class_size BIGINT (records), value DOUBLE (k of the class), violated BOOLEAN or NULL
-- violation: class_size < k
-- source: Samarati and Sweeney 1998
SELECT
    class_size.class,
    class_size.class_size,
    CAST(class_size.class_size AS DOUBLE) AS value,
    class_size.class_size < threshold.k AS violated
FROM class_size
CROSS JOIN threshold
