-- gate: stop a pipeline when a table breaks its thresholds
-- question: May this table leave the house?
-- reads: variables gate_*; in a database that holds a release of duckanon its schema duckanon
-- returns: one row, 'passed: ...', and exit code 0 of the stock command line; otherwise one line on stderr and
--          exit code 1, with `duckdb -bail` and without
-- violation: a threshold is broken. What cannot be judged is an error too, never a pass.
-- source: the macros of install.sql, and sql/audit/t_closeness_hierarchical.sql word for word
--
-- A file that EXPORT ANONYMIZED VIEW wrote, by the thresholds that are recorded in it:
--     duckdb -readonly -bail release.duckdb -c ".read sql/gate.sql"
-- Any other table, parquet or CSV file, by variables:
--     duckdb -bail -c ".read sql/install.sql" -c "SET VARIABLE gate_table = 'patients.csv'" \
--         -c "SET VARIABLE gate_quasi_identifiers = ['age', 'zip']" -c "SET VARIABLE gate_sensitive = ['charge']" \
--         -c "SET VARIABLE gate_k = 5" -c "SET VARIABLE gate_t = 0.2" -c ".read sql/gate.sql"
--
--     gate_table               table, view or file; not needed where one release is recorded
--     gate_quasi_identifiers   list of columns; where it is set, no recorded policy is looked at
--     gate_sensitive           list of columns; none if it is not set
--     gate_k                   whole number from 1 on
--     gate_t, gate_l           a number for all sensitive columns, or {'charge': 0.2, 'diagnosis': 0.4}
--     gate_l_diversity, gate_c 'distinct' (if not set), 'entropy', or 'recursive' with c
--     gate_distance            {'charge': 'equal'}: 'ordered' or 'equal' a column; follows the type if not set
--     gate_trees               {'diagnosis': 'tree.csv'}: hierarchical distance, columns from leaf to root
--     gate_database            attached database whose recorded policy counts; the current one if not set
-- gate_k, gate_t and gate_l (with gate_l_diversity and gate_c) replace recorded thresholds: those, and the macros
-- in a file, are the word of its maker. To trust neither, load install.sql and ATTACH the file (docs/gate.md).
.bail on

SET VARIABLE duckanon_gate_ready = FALSE;

-- Schema of the recorded policy as SQL text, "database".duckanon. with a dot at its end, or NULL.
SET VARIABLE duckanon_gate_home = (
    SELECT '"' || replace(database_name, '"', '""') || '".duckanon.'
    FROM duckdb_tables()
    WHERE
        getvariable('gate_quasi_identifiers') IS NULL AND schema_name = 'duckanon' AND table_name = 'thresholds'
        AND lower(database_name) = lower(coalesce(getvariable('gate_database'), current_database()))
);

-- The releases that gate_table can mean: all of them if it is not set.
CREATE OR REPLACE TEMP TABLE duckanon_gate_release AS
SELECT
    release_id,
    schema_name || '.' || view_name AS name,
    CAST(
        left(getvariable('duckanon_gate_home'), len(getvariable('duckanon_gate_home')) - 9)
        || '"' || replace(schema_name, '"', '""') || '"."' || replace(view_name, '"', '""') || '"'
        AS VARCHAR
    ) AS relation
FROM query(
    CASE
        WHEN getvariable('duckanon_gate_home') IS NULL
        THEN 'SELECT 0 AS release_id, '''' AS schema_name, '''' AS view_name WHERE FALSE'
        ELSE 'FROM ' || getvariable('duckanon_gate_home') || 'releases'
    END
)
WHERE
    getvariable('gate_table') IS NULL
    OR lower(getvariable('gate_table')) IN (
        lower(view_name),
        lower(schema_name || '.' || view_name),
        lower(coalesce(getvariable('gate_database'), current_database()) || '.' || view_name),
        lower(coalesce(getvariable('gate_database'), current_database()) || '.' || schema_name || '.' || view_name)
    );

-- The thresholds in variables, each a number for all columns (name '') or one a column.
CREATE OR REPLACE TEMP TABLE duckanon_gate_given AS
SELECT setting, unnest(map_keys(given)) AS name, unnest(map_values(given)) AS value
FROM (
    SELECT
        setting,
        CAST(
            CASE WHEN json_type(given) = 'OBJECT' THEN given ELSE json_object('', text) END AS MAP(VARCHAR, VARCHAR)
        ) AS given
    FROM (
        VALUES
        ('k', to_json(getvariable('gate_k')), CAST(getvariable('gate_k') AS VARCHAR)),
        ('l', to_json(getvariable('gate_l')), CAST(getvariable('gate_l') AS VARCHAR)),
        ('t', to_json(getvariable('gate_t')), CAST(getvariable('gate_t') AS VARCHAR)),
        ('distance', to_json(getvariable('gate_distance')), CAST(getvariable('gate_distance') AS VARCHAR)),
        ('tree', to_json(getvariable('gate_trees')), CAST(getvariable('gate_trees') AS VARCHAR))
    ) AS one(setting, given, text)
    WHERE text IS NOT NULL
) AS map;

SET VARIABLE duckanon_gate_misspelt = (
    SELECT string_agg(name, ', ' ORDER BY name)
    FROM duckdb_variables()
    WHERE
        lower(name) LIKE 'gate!_%' ESCAPE '!'
        AND lower(name) NOT IN (
            'gate_table', 'gate_quasi_identifiers', 'gate_sensitive', 'gate_k', 'gate_t', 'gate_l', 'gate_l_diversity',
            'gate_c', 'gate_distance', 'gate_trees', 'gate_database'
        )
);

-- What is wrong with the variables; what is wrong with columns and thresholds the audit macros say.
SET VARIABLE duckanon_gate_ready = (
    SELECT CASE
        WHEN getvariable('duckanon_gate_misspelt') IS NOT NULL
        THEN error('gate: no variable is called ' || getvariable('duckanon_gate_misspelt') || ': see its head')
        WHEN getvariable('gate_quasi_identifiers') IS NULL AND (
            getvariable('gate_sensitive') IS NOT NULL OR getvariable('gate_distance') IS NOT NULL
            OR getvariable('gate_trees') IS NOT NULL
        )
        THEN error('gate: no quasi-identifiers: SET VARIABLE gate_quasi_identifiers = [''age'', ''zip'']')
        WHEN getvariable('gate_quasi_identifiers') IS NOT NULL AND getvariable('gate_table') IS NULL
        THEN error('gate: no table: SET VARIABLE gate_table = ''patients.csv''')
        WHEN getvariable('gate_quasi_identifiers') IS NULL AND getvariable('duckanon_gate_home') IS NULL
        THEN error(
            'gate: no policy is recorded in ' || coalesce(getvariable('gate_database'), current_database())
            || ': SET VARIABLE gate_table, gate_quasi_identifiers and thresholds'
        )
        WHEN getvariable('gate_quasi_identifiers') IS NULL AND release.number = 0
        THEN error('gate: no policy is recorded for ' || coalesce(getvariable('gate_table'), 'any table'))
        WHEN release.number > 1
        THEN error('gate: several releases: SET VARIABLE gate_table to one of ' || release.names)
        WHEN getvariable('gate_quasi_identifiers') IS NOT NULL AND (
            typeof(getvariable('gate_quasi_identifiers')) <> 'VARCHAR[]'
            OR len(getvariable('gate_quasi_identifiers')) = 0
        )
        THEN error('gate: gate_quasi_identifiers must be a list of column names, such as [''age'', ''zip'']')
        WHEN getvariable('gate_sensitive') IS NOT NULL AND (
            typeof(getvariable('gate_sensitive')) <> 'VARCHAR[]' OR len(getvariable('gate_sensitive')) = 0
        )
        THEN error('gate: gate_sensitive must be a list of column names, such as [''charge'']')
        WHEN getvariable('gate_sensitive') IS NULL AND getvariable('gate_quasi_identifiers') IS NOT NULL AND (
            getvariable('gate_t') IS NOT NULL OR getvariable('gate_l') IS NOT NULL
        )
        THEN error('gate: t and l need a sensitive column: SET VARIABLE gate_sensitive = [''charge'']')
        WHEN getvariable('gate_l') IS NULL AND (
            getvariable('gate_l_diversity') IS NOT NULL OR getvariable('gate_c') IS NOT NULL
        )
        THEN error('gate: gate_l_diversity and gate_c need gate_l')
        WHEN (
            SELECT count(DISTINCT function_name) FROM duckdb_functions()
            WHERE
                function_name IN ('audit', 'class_sizes', 't_closeness_hierarchical')
                AND function_type = 'table_macro'
        ) < 3
        THEN error('gate: the audit macros are missing: .read sql/install.sql first')
        WHEN given.k IS NOT NULL AND coalesce(
            TRY_CAST(given.k AS DECIMAL(38, 18)) < 1 OR TRY_CAST(given.k AS DECIMAL(38, 18)) % 1 <> 0, TRUE
        )
        THEN error('gate: gate_k must be a whole number from 1 on')
        WHEN given.strangers IS NOT NULL
        THEN error(
            'gate: gate_distance and gate_trees are by sensitive column, such as {''diagnosis'': ''tree.csv''}, not '
            || given.strangers
        )
        ELSE TRUE
    END
    FROM (
        SELECT count(*) AS number, string_agg(name, ', ' ORDER BY name) AS names FROM duckanon_gate_release
    ) AS release
    CROSS JOIN (
        SELECT
            max(CASE WHEN setting = 'k' THEN one.value END) AS k,
            string_agg(
                CASE
                    WHEN setting IN ('distance', 'tree') AND known.name IS NULL
                    THEN coalesce(nullif(one.name, ''), one.value)
                END,
                ', '
            ) AS strangers
        FROM duckanon_gate_given AS one
        LEFT JOIN (SELECT lower(unnest(TRY_CAST(getvariable('gate_sensitive') AS VARCHAR[]))) AS name) AS known
            ON known.name = lower(one.name)
    ) AS given
);

-- The policy, from the record or from variables: columns, and thresholds as text so that every digit counts.
SET VARIABLE duckanon_gate_release_id = (SELECT max(release_id) FROM duckanon_gate_release);

CREATE OR REPLACE TEMP TABLE duckanon_gate_column AS
SELECT
    column_name AS name, role, distance, position,
    CAST(getvariable('duckanon_gate_home') || '"' || replace(tree, '"', '""') || '"' AS VARCHAR) AS tree
FROM query(
    CASE
        WHEN getvariable('duckanon_gate_home') IS NULL
        THEN 'SELECT '''' AS column_name, '''' AS role, '''' AS distance, '''' AS tree, 0 AS position, 0 AS release_id '
            || 'WHERE FALSE'
        ELSE 'FROM ' || getvariable('duckanon_gate_home') || '"columns"'
    END
)
WHERE release_id = getvariable('duckanon_gate_release_id')
UNION ALL
SELECT name, 'quasi_identifier', NULL, row_number() OVER (), NULL
FROM (SELECT unnest(CAST(getvariable('gate_quasi_identifiers') AS VARCHAR[])) AS name) AS one
UNION ALL
SELECT one.name, 'sensitive', distance.value, row_number() OVER (), tree.value
FROM (SELECT unnest(CAST(getvariable('gate_sensitive') AS VARCHAR[])) AS name) AS one
LEFT JOIN duckanon_gate_given AS distance ON distance.setting = 'distance' AND lower(distance.name) = lower(one.name)
LEFT JOIN duckanon_gate_given AS tree ON tree.setting = 'tree' AND lower(tree.name) = lower(one.name);

CREATE OR REPLACE TEMP TABLE duckanon_gate_threshold AS
SELECT
    given.setting, coalesce(one.name, given.name) AS name, given.value,
    coalesce(getvariable('gate_l_diversity'), 'distinct') AS l_diversity, CAST(getvariable('gate_c') AS VARCHAR) AS c
FROM duckanon_gate_given AS given
LEFT JOIN duckanon_gate_column AS one ON given.name = '' AND given.setting <> 'k' AND one.role = 'sensitive'
WHERE given.setting IN ('k', 'l', 't')
UNION ALL
SELECT left(measure, 1), coalesce(attribute, ''), CAST(threshold AS VARCHAR), l_diversity, CAST(c AS VARCHAR)
FROM query(
    CASE
        WHEN getvariable('duckanon_gate_home') IS NULL
        THEN 'SELECT '''' AS measure, '''' AS attribute, 0 AS threshold, '''' AS l_diversity, 0 AS c, 0 AS release_id '
            || 'WHERE FALSE'
        ELSE 'FROM ' || getvariable('duckanon_gate_home') || 'thresholds'
    END
)
WHERE
    release_id = getvariable('duckanon_gate_release_id')
    AND left(measure, 1) NOT IN (SELECT given.setting FROM duckanon_gate_given AS given);

-- The same as constants, which is what a macro can pass on.
SET VARIABLE duckanon_gate_table = (
    SELECT coalesce((SELECT max(relation) FROM duckanon_gate_release), getvariable('gate_table'))
);
SET VARIABLE duckanon_gate_name = (
    SELECT coalesce((SELECT max(name) FROM duckanon_gate_release), getvariable('gate_table'))
);
SET VARIABLE duckanon_gate_qi = (
    SELECT list(name ORDER BY position) FROM duckanon_gate_column WHERE role = 'quasi_identifier'
);
SET VARIABLE duckanon_gate_s = (
    SELECT list(name ORDER BY position) FROM duckanon_gate_column WHERE role = 'sensitive'
);
SET VARIABLE duckanon_gate_k = (SELECT max(value) FROM duckanon_gate_threshold WHERE setting = 'k');
SET VARIABLE duckanon_gate_l = (
    SELECT map_from_entries(list((name, value))) FROM duckanon_gate_threshold WHERE setting = 'l'
);
SET VARIABLE duckanon_gate_t = (
    SELECT map_from_entries(list((one.name, one.value)))
    FROM duckanon_gate_threshold AS one
    WHERE
        one.setting = 't'
        AND lower(one.name) NOT IN (
            SELECT lower(known.name) FROM duckanon_gate_column AS known WHERE known.tree IS NOT NULL
        )
);
SET VARIABLE duckanon_gate_distance = (
    SELECT map_from_entries(list((name, distance)))
    FROM duckanon_gate_column
    WHERE role = 'sensitive' AND distance IS NOT NULL AND tree IS NULL
);
SET VARIABLE duckanon_gate_l_diversity = (
    SELECT coalesce(max(l_diversity), 'distinct') FROM duckanon_gate_threshold WHERE setting = 'l'
);
SET VARIABLE duckanon_gate_c = (SELECT max(c) FROM duckanon_gate_threshold WHERE setting = 'l');

-- k alone, where no column is sensitive.
CREATE OR REPLACE TEMP MACRO duckanon_gate_size(tbl, qi, k) AS TABLE
SELECT
    'k_anonymity' AS measure, CAST(NULL AS VARCHAR) AS attribute, CAST(k AS DOUBLE) AS threshold,
    CAST(min(class_size) AS DOUBLE) AS value, count(*) AS classes,
    count(CASE WHEN class_size < CAST(k AS DECIMAL(38, 18)) THEN 1 END) AS violations,
    CAST(coalesce(sum(CASE WHEN class_size < CAST(k AS DECIMAL(38, 18)) THEN class_size END), 0) AS BIGINT) AS records,
    min(class_size) >= CAST(k AS DECIMAL(38, 18)) AS passed
FROM class_sizes(tbl, qi);

-- A hierarchy as gate_trees names it, in the form in which a release keeps it. Only CTEs named duckanon_... read
-- what a user names: another name could hide the user's table.
CREATE OR REPLACE TEMP MACRO duckanon_gate_tree(tree) AS TABLE
WITH duckanon_leaf AS (
    SELECT row_number() OVER () AS leaf, CAST(COLUMNS(*) AS VARCHAR) AS "n \0" FROM query_table(tree)
),
duckanon_level AS (
    SELECT one.name, row_number() OVER () - 1 AS level
    FROM (SELECT typeof(COLUMNS(*)) AS "n \0" FROM query_table(tree) LIMIT 1)
    UNPIVOT (type FOR name IN (COLUMNS(*))) AS one
),
path AS (
    SELECT long.leaf, duckanon_level.level, long.node
    FROM duckanon_leaf UNPIVOT INCLUDE NULLS (node FOR name IN (COLUMNS(* EXCLUDE (leaf)))) AS long
    JOIN duckanon_level ON duckanon_level.name = long.name
)
SELECT bottom.node AS value, path.level, path.node
FROM path
JOIN path AS bottom ON bottom.leaf = path.leaf AND bottom.level = 0;

-- t-closeness of one column along its tree; `tree` is a query for (value, level, node).
CREATE OR REPLACE TEMP MACRO duckanon_gate_hierarchical(tbl, qi, s, tree, wanted) AS TABLE
WITH duckanon_tree AS MATERIALIZED (SELECT value, level, node FROM query(tree)),
duckanon_class AS MATERIALIZED (
    SELECT row_number() OVER () AS class, {'v': COLUMNS(qi)} AS "qi \0"
    FROM (SELECT DISTINCT COLUMNS(qi) FROM query_table(tbl))
),
duckanon_member AS MATERIALIZED (
    SELECT class, CAST("s value" AS VARCHAR) AS value
    FROM (SELECT {'v': COLUMNS(qi)} AS "qi \0", COLUMNS(s) AS "s value" FROM query_table(tbl))
    NATURAL JOIN duckanon_class
),
class_member AS (SELECT class, value FROM duckanon_member),
tree AS (SELECT value, level, node FROM duckanon_tree),
threshold AS (
    SELECT CAST(t - t % 0.000000000001 AS DECIMAL(18, 12)) AS t
    FROM (SELECT CAST(wanted AS DECIMAL(38, 18)) AS t) AS one
),
class_emd AS (
    SELECT class, class_size, emd_numerator, emd_denominator, emd
    FROM (
        WITH root AS (SELECT max(path.level) AS height FROM tree AS path),
        edge AS (
            SELECT path.value, path.level, path.node FROM tree AS path CROSS JOIN root WHERE path.level < root.height
            UNION ALL
            SELECT DISTINCT NULL, path.level, NULL FROM tree AS path CROSS JOIN root WHERE path.level < root.height
        ),
        present AS (
            SELECT cm.class, edge.level, edge.node, count(*) AS members
            FROM class_member AS cm JOIN edge ON edge.value IS NOT DISTINCT FROM cm.value
            GROUP BY cm.class, edge.level, edge.node
        ),
        domain AS (
            SELECT present.level, present.node, CAST(sum(present.members) AS BIGINT) AS records
            FROM present
            GROUP BY present.level, present.node
        ),
        class_size AS (
            SELECT class, count(*) AS members FROM class_member GROUP BY class
        ),
        total AS (SELECT CAST(sum(members) AS BIGINT) AS n FROM class_size),
        difference AS (
            SELECT
                present.class,
                class_size.members AS class_size,
                abs(total.n * present.members - class_size.members * domain.records)
                - class_size.members * domain.records AS gain
            FROM present
            JOIN class_size ON class_size.class = present.class
            JOIN domain ON domain.level = present.level AND domain.node IS NOT DISTINCT FROM present.node
            CROSS JOIN total
        ),
        class_gain AS (
            SELECT class, class_size, sum(gain) AS gain FROM difference GROUP BY class, class_size
        )
        SELECT
            class_gain.class,
            class_gain.class_size,
            class_gain.gain + CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS emd_numerator,
            2 * CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS emd_denominator,
            CAST(class_gain.gain + CAST(root.height AS HUGEINT) * class_gain.class_size * total.n AS DOUBLE)
            / (2 * CAST(root.height AS DOUBLE) * class_gain.class_size * total.n) AS emd
        FROM class_gain
        CROSS JOIN total
        CROSS JOIN root
    ) AS result
),
-- sql/audit/verdict_t_closeness.sql
verdict AS (
    SELECT
        class_emd.class_size,
        class_emd.emd AS value,
        class_emd.emd_numerator * 1000000000000
        > CAST(threshold.t * 1000000000000 AS HUGEINT) * class_emd.emd_denominator AS violated
    FROM class_emd
    CROSS JOIN threshold
)
SELECT
    't_closeness' AS measure, CAST(s[1] AS VARCHAR) AS attribute, CAST(wanted AS DOUBLE) AS threshold,
    max(value) AS value, count(*) AS classes,
    count(CASE WHEN violated THEN 1 END) AS violations,
    CAST(coalesce(sum(CASE WHEN violated THEN class_size END), 0) AS BIGINT) AS records,
    max(CASE WHEN violated THEN 1 ELSE 0 END) = 0 AS passed
FROM verdict
HAVING CASE
    WHEN (SELECT t <= 0 OR t > 1 FROM threshold)
    THEN error('gate: t must be greater than 0 and at most 1')
    WHEN (
        SELECT count(*)
        FROM class_member
        ANTI JOIN tree ON tree.value = class_member.value
        WHERE class_member.value IS NOT NULL
    ) > 0
    THEN error('gate: the hierarchy has no row for a value of the table')
    ELSE TRUE
END;

-- One query for all of the report. Of a tree t_closeness_hierarchical checks the form.
SET VARIABLE duckanon_gate_report = (
    SELECT string_agg(part, ' UNION ALL ')
    FROM (
        SELECT CASE
            WHEN getvariable('duckanon_gate_s') IS NULL
            THEN 'SELECT * FROM duckanon_gate_size(getvariable(''duckanon_gate_table''), '
                || 'getvariable(''duckanon_gate_qi''), getvariable(''duckanon_gate_k''))'
            ELSE 'SELECT * FROM audit(getvariable(''duckanon_gate_table''), getvariable(''duckanon_gate_qi''), '
                || 'getvariable(''duckanon_gate_s''), k := getvariable(''duckanon_gate_k''), '
                || 'l := getvariable(''duckanon_gate_l''), t := getvariable(''duckanon_gate_t''), '
                || 'distance := getvariable(''duckanon_gate_distance''), '
                || 'l_diversity := getvariable(''duckanon_gate_l_diversity''), c := getvariable(''duckanon_gate_c''))'
        END AS part
        UNION ALL
        SELECT
            'SELECT * FROM duckanon_gate_hierarchical(getvariable(''duckanon_gate_table''), '
            || 'getvariable(''duckanon_gate_qi''), [' || column_text || '], '
            || CASE
                WHEN getvariable('duckanon_gate_home') IS NOT NULL
                THEN '''FROM ' || replace(tree, '''', '''''') || ''', ' || value_text || ')'
                ELSE '''FROM duckanon_gate_tree(' || replace(tree_text, '''', '''''') || ')'', ' || value_text || ')'
                    || ' WHERE (SELECT count(*) FROM t_closeness_hierarchical(getvariable(''duckanon_gate_table''), '
                    || 'getvariable(''duckanon_gate_qi''), [' || column_text || '], ' || tree_text || ')) > 0'
            END
        FROM (
            SELECT
                known.tree,
                '''' || replace(known.name, '''', '''''') || '''' AS column_text,
                '''' || replace(known.tree, '''', '''''') || '''' AS tree_text,
                '''' || replace(one.value, '''', '''''') || '''' AS value_text
            FROM duckanon_gate_column AS known
            JOIN duckanon_gate_threshold AS one ON one.setting = 't' AND lower(one.name) = lower(known.name)
            WHERE known.tree IS NOT NULL
        ) AS hierarchical
    ) AS parts
);

SELECT CASE
    WHEN getvariable('duckanon_gate_ready') IS DISTINCT FROM TRUE
    THEN error('gate: nothing was judged, for the reason above')
    WHEN judged.asked = 0
    THEN error('gate: no threshold: SET VARIABLE gate_k, gate_l or gate_t')
    WHEN judged.broken > 0
    THEN error(
        replace('gate: ' || getvariable('duckanon_gate_name') || ' violates ' || judged.violations, chr(10), ' ')
    )
    WHEN judged.kept <> judged.asked
    THEN error('gate: ' || judged.asked || ' thresholds, but ' || judged.kept || ' of them were judged')
    ELSE 'passed: ' || getvariable('duckanon_gate_name') || ' keeps ' || judged.passes
END AS gate
FROM (
    SELECT
        (SELECT count(*) FROM duckanon_gate_threshold) AS asked,
        count(CASE WHEN passed THEN 1 END) AS kept,
        count(CASE WHEN NOT passed THEN 1 END) AS broken,
        string_agg(text, ', ') FILTER (WHERE passed) AS passes,
        string_agg(
            text || ' in ' || violations || ' of ' || classes || ' classes (' || records || ' records)', ', '
        ) FILTER (WHERE NOT passed) AS violations
    FROM (
        SELECT
            passed, violations, classes, records,
            measure || coalesce(' of ' || attribute, '') || ' '
            || printf(CASE WHEN passed THEN '%.6g' ELSE '%.15g' END, value)
            || ' (asked ' || printf('%.12g', threshold) || ')' AS text
        FROM query(getvariable('duckanon_gate_report'))
    ) AS line
) AS judged;
