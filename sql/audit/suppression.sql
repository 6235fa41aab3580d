-- audit: suppression
-- question: How many records of the original are missing in the release?
-- reads: released(record, attribute, value), original(record, attribute, value): of each, any one column
-- returns: one row: original_records BIGINT, released_records BIGINT, suppressed_records BIGINT (their
--          difference), suppressed_share DOUBLE (of the original)
-- violation: suppressed_records < 0: more is released than there is; a policy may cap the share
-- source: Sweeney 2002, suppression of outlying records; ARX and sdcMicro count the same
--
-- Values were recoded, so no record of the original can be looked up in the release: the counts must tell.
WITH original_count AS (
    SELECT count(*) AS records
    FROM original AS old
),
released_count AS (
    SELECT count(*) AS records
    FROM released AS new
)
SELECT
    original_count.records AS original_records,
    released_count.records AS released_records,
    original_count.records - released_count.records AS suppressed_records,
    CAST(original_count.records - released_count.records AS DOUBLE)
    / CAST(original_count.records AS DOUBLE) AS suppressed_share
FROM original_count
CROSS JOIN released_count
