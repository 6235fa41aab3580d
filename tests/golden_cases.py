"""Cases of the golden net: see `golden.py`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from golden_parts import (
    FIXTURES,
    Parts,
    arrow_rows,
    attempt,
    case,
    census,
    command,
    connected,
    evidence_of,
    folder,
    outcomes,
    people,
    plain,
    released,
    rows_of,
    simple,
    steady,
    unhashed,
)

# fmt: off

# ---------------------------------------------------------------- releases with k alone

BODY = "age, height, weight"
K_METHODS = (
    "blocks", "cbfs", "dba1", "dba2", "k_ward", "m_d", "maximum_distance", "mdav", "mdav1", "mdav2", "mdav_generic",
    "meansort_ps", "mhm", "mondrian", "mondrian_relaxed", "mu_approx", "multidsort_ps", "tfrp1", "tfrp2", "vmdav",
)
T_METHODS = (
    "kanonymity_first", "mondrian", "mondrian_relaxed", "sabre", "steered", "tcloseness_first", "tcloseness_merge",
)

for _name in K_METHODS:
    simple(
        f"method_{_name}", BODY, f"quasi_identifiers = (age, height, weight), k = 4, method = '{_name}'", 180,
        explain=_name in ("mdav", "mondrian"),
    )
for _name in T_METHODS:
    simple(
        f"method_t_{_name}", "age, weight, charge",
        f"quasi_identifiers = (age, weight), sensitive = charge, k = 3, t = 0.2, method = '{_name}'", 240,
        explain=_name == "steered",
    )
simple("method_univariate", "weight, charge", "quasi_identifiers = weight, insensitive = *, k = 4, method = 'univariate'")

simple("k_mixed", "* EXCLUDE (id, person)", "quasi_identifiers = (age, height, city, smoker), insensitive = *, k = 5", 500)
simple("k_one_column", "age, charge", "quasi_identifiers = age, sensitive = charge, k = 5")
simple("k_unrefined", f"{BODY}, city", "quasi_identifiers = (age, height, weight, city), k = 4, refine = false", 400)
simple("k_best", BODY, "quasi_identifiers = (age, height, weight), k = 5, effort = 'best', seed = 3", 120)
simple("k_fast", f"{BODY}, smoker", "quasi_identifiers = (age, height, weight, smoker), k = 6, effort = 'fast'", 1500)
simple("k_many_equal", "visits, smoker, plan_type, charge", "quasi_identifiers = (visits, smoker, plan_type), insensitive = charge, k = 5", 800)
simple("k_importance", BODY, "quasi_identifiers = (age, height, weight), k = 4, weights = {age: 3.0, weight: 0.25}")
simple("k_subject", f"person, {BODY}, charge", "subject = person, quasi_identifiers = (age, height, weight), sensitive = charge, k = 3")
simple("k_subject_mdav", "id, person, age, weight", "identifiers = id, subject = person, quasi_identifiers = (age, weight), k = 3, method = 'mdav'")
simple("k_error", BODY, "quasi_identifiers = (age, height, weight), k = 500")

# ---------------------------------------------------------------- t, l and suppression

T_QI = "quasi_identifiers = (age, weight)"
simple("t_ordered", "age, weight, charge", f"{T_QI}, sensitive = charge, k = 5, t = 0.15", 500)
simple("t_without_ties", "age, weight, cost", f"{T_QI}, sensitive = cost, k = 3, t = 0.1", 300)
simple("t_fast", "age, city, charge", "quasi_identifiers = (age, city), sensitive = charge, k = 5, t = 0.25, effort = 'fast'", 2500)
simple("t_equal", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 4, t = 0.3")
simple("t_hierarchical", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 4, t = 0.2, distance = {{diagnosis: 'hierarchical'}}, hierarchies = {{diagnosis: 'icd'}}", hierarchies=True)
simple("t_several", "age, weight, charge, diagnosis, day", f"{T_QI}, sensitive = (charge, diagnosis, day), k = 4, t = {{charge: 0.25, day: 0.3}}, l = {{diagnosis: 3}}", 400)
simple("t_unrefined", "age, weight, charge", f"{T_QI}, sensitive = charge, k = 5, t = 0.15, refine = false", 800)
# Far records of one value, which suppression leaves out.
FAR = "CASE WHEN id % {0} = 1 THEN 2000 + age ELSE age END AS age, weight, CASE WHEN id % {0} = 1 THEN 'hiv' ELSE diagnosis END AS diagnosis"
simple("t_suppression", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, t = 0.78, suppression_limit = 0.1")
simple("t_suppression_unrefined", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, t = 0.78, suppression_limit = 0.1, refine = false")
simple("l_suppression", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, l = 2, suppression_limit = 0.1")
simple("l_suppression_unrefined", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, l = 2, suppression_limit = 0.02, refine = false")
simple("l_suppression_mondrian", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, l = 2, suppression_limit = 0.1, method = 'mondrian'")
simple("t_collapses", "age, weight, cost", f"{T_QI}, sensitive = cost, k = 3, t = 0.001", 150)
simple("t_subject", "person, age, weight, charge", f"subject = person, {T_QI}, sensitive = charge, k = 3, t = 0.3", 240)
simple("t_date", "height, city, day", "quasi_identifiers = (height, city), sensitive = day, k = 4, t = 0.3, distance = {day: 'equal'}", 200)
simple("t_mondrian_suppression", "age, weight, charge", f"{T_QI}, sensitive = charge, k = 4, t = 0.15, method = 'mondrian', suppression_limit = 0.05")
simple("l_distinct", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 3, l = 4")
simple("l_clusters", "city, smoker, visits, diagnosis", "quasi_identifiers = (city, smoker, visits), sensitive = diagnosis, k = 6, l = 2")
simple("l_entropy", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 3, l = 3.2, l_diversity = 'entropy'")
simple("l_recursive", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 3, l = 2, l_diversity = 'recursive', c = 1.5")
simple("l_share", "age, weight, diagnosis", f"{T_QI}, sensitive = diagnosis, k = 4, l = 1, l_diversity = 'recursive', c = 0.35")
simple("l_error", "age, diagnosis", "quasi_identifiers = age, sensitive = diagnosis, k = 3, l = 9")

# ---------------------------------------------------------------- recoding, p %, few values, forms

simple(
    "recode_every_rule", "age, height, weight, born, seen, zip, city, smoker, income, charge",
    "quasi_identifiers = (age, height, weight, born, seen, zip, city, smoker, income), sensitive = charge, k = 6, "
    "recode = {age: 'median', height: 'mean', weight: 'range', born: 'range', seen: 'mean', zip: 'hierarchy', "
    "city: 'set', smoker: 'mode', income: 'mode'}, hierarchies = {zip: 'zip_tree'}", hierarchies=True,
)
simple("recode_dates", "born, seen, day", "quasi_identifiers = (born, seen, day), k = 4, recode = {born: 'median', seen: 'range', day: 'set'}")
simple("recode_tree_of_dates", "born, age, charge", "quasi_identifiers = (born, age), insensitive = charge, k = 4, recode = {born: 'hierarchy'}, hierarchies = {born: 'born_tree'}", hierarchies=True)
simple("recode_code", "plan_type, age", "quasi_identifiers = (plan_type, age), k = 4")
simple("recode_digits", "height, income, balance", "quasi_identifiers = (height, income, balance), k = 4, digits = {height: 0, income: -2}, min_values = 1")
simple("few_values", "height, age", "quasi_identifiers = (height, age), k = 3, min_values = 5")
simple("nulls_suppressed", "height, city, charge", "quasi_identifiers = (height, city), sensitive = charge, k = 4, nulls = 'suppress'")
simple("p_percent", "age, income, balance", "quasi_identifiers = (age, income, balance), k = 4, p_percent = 10")
simple("p_percent_subject", "person, age, income, charge", "subject = person, quasi_identifiers = (age, income), sensitive = charge, k = 3, p_percent = 15, t = 0.35")
simple("anatomy", "age, zip, diagnosis, charge", "quasi_identifiers = (age, zip), sensitive = diagnosis, insensitive = charge, k = 4, l = 3, release = 'anatomy'")
simple("anatomy_two", "age, zip, diagnosis, plan_type", "quasi_identifiers = (age, zip), sensitive = (diagnosis, plan_type), k = 4, l = 2, release = 'anatomy'")
simple("swap", "age, zip, city, charge", "quasi_identifiers = (age, zip, city), sensitive = charge, k = 4, release = 'swap', seed = 5")
simple("swap_t", "age, zip, charge", "quasi_identifiers = (age, zip), sensitive = charge, k = 4, t = 0.25, release = 'swap'")
for _name in ("loss", "discernibility", "c_avg", "precision"):
    simple(
        f"full_domain_{_name}", "age, zip, smoker, charge",
        "quasi_identifiers = (age, zip, smoker), sensitive = charge, k = 4, t = 0.4, suppression_limit = 0.05, "
        f"method = 'full_domain', objective = '{_name}', hierarchies = {{age: 'age_tree', zip: 'zip_tree'}}",
        hierarchies=True, explain=_name == "loss",
    )
simple("incognito_l", "age, zip, diagnosis", "quasi_identifiers = (age, zip), sensitive = diagnosis, k = 3, l = 3, method = 'incognito', hierarchies = {age: 'age_tree', zip: 'zip_tree'}", hierarchies=True)
simple("mondrian_hierarchies", "age, zip, city, charge", "quasi_identifiers = (age, zip, city), sensitive = charge, k = 4, method = 'mondrian', suppression_limit = 0.03, recode = {age: 'range', zip: 'hierarchy', city: 'set'}, hierarchies = {zip: 'zip_tree'}", hierarchies=True)
simple("auto_hierarchies", "age, zip, diagnosis", "quasi_identifiers = (age, zip), sensitive = diagnosis, k = 4, l = 2, recode = {age: 'hierarchy', zip: 'hierarchy'}, hierarchies = {age: 'age_tree', zip: 'zip_tree'}", hierarchies=True)

# ---------------------------------------------------------------- several tiles


@case
def census_fast() -> Parts:
    """Return a release of the bundled census."""
    with connected(0) as con:
        census(con, 10_000)
        query = "SELECT age, sex, education, wage_per_hour, weeks_worked, occupation FROM census"
        options = "quasi_identifiers = (age, sex, education, wage_per_hour), sensitive = (weeks_worked, occupation), k = 5, effort = 'fast'"
        return released(con, query, options)


TILED_QI = "quasi_identifiers = (age, weight, income), sensitive = (charge, diagnosis)"
for _name, _options in {
    "k": "k = 5, method = 'tfrp1'",
    "k_refined": "k = 10, effort = 'fast'",
    "t": "k = 5, t = {charge: 0.12}, refine = false",
    "t_refined": "k = 20, t = {charge: 0.2}, effort = 'fast'",
    "merged": "k = 5, t = {charge: 0.25, diagnosis: 0.5}, method = 'tcloseness_merge'",
    "p_percent": "k = 3, p_percent = 8, refine = false",
    "mondrian": "k = 5, t = {charge: 0.3}, method = 'mondrian'",
    "swap": "k = 5, release = 'swap', refine = false",
}.items():
    simple(f"tiles_{_name}", "age, weight, income, charge, diagnosis", f"{TILED_QI}, {_options}", 9_000 if "refined" not in _name else 18_000)
simple("tiles_t_suppressed", "age, weight, charge", f"{T_QI}, sensitive = charge, k = 4, t = 0.05, suppression_limit = 0.2, refine = false", 9_000)
simple("tiles_l_suppressed", FAR.format(60), f"{T_QI}, sensitive = diagnosis, k = 4, l = 2, suppression_limit = 0.1, method = 'mdav'", 9_000)


# ---------------------------------------------------------------- one release after the other

SUBJECTS = "subject = person, quasi_identifiers = (age, weight), sensitive = charge, k = 3"
PERSONS = "SELECT person, age, weight, charge FROM people"


def successive(con: Any, *scripts: str) -> Parts:
    """Run scripts one after the other, and return what each said and what the view shows after it."""
    parts: Parts = {}
    for number, script in enumerate(scripts):
        parts[f"step_{number}"] = outcomes(con, script)
        parts[f"rows_{number}"] = rows_of(con.duckdb.sql("FROM v"))
    return parts | evidence_of(con)


@case
def refresh() -> Parts:
    """Return a release, the same after records came and went, and one of another policy in its place."""
    with connected() as con:
        create = f"ANONYMIZED VIEW v AS {PERSONS} WITH ({SUBJECTS}, t = 0.3)"
        return successive(con, f"CREATE {create}", "DELETE FROM people WHERE id % 17 = 3; UPDATE people SET charge = charge + 9 WHERE id % 31 = 0;REFRESH ANONYMIZED VIEW v", f"CREATE OR REPLACE {create.replace('k = 3', 'k = 6')}", "AUDIT VIEW v WITH (k = 7, t = 0.2); SHOW ANONYMIZED VIEWS; EXPLAIN ANONYMIZED VIEW v")


@case
def append() -> Parts:
    """Return a release to which is appended twice: once all wait, once most leave."""
    with connected() as con:
        parts = successive(con, f"CREATE ANONYMIZED VIEW v AS {PERSONS} WITH ({SUBJECTS}, t = 0.4)")
        people(con, 4, first=400)
        few = successive(con, "REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
        people(con, 90, first=500)
        con.execute("DELETE FROM people WHERE id < 6; UPDATE people SET age = age + 1 WHERE id BETWEEN 10 AND 20")
        more = successive(con, "REFRESH ANONYMIZED VIEW v WITH (mode = 'append', on_intersection = 'error'); SHOW ANONYMIZED VIEWS")
        return {f"{step}/{name}": part for step, made in zip("012", (parts, few, more), strict=True) for name, part in made.items()}


@case
def intersection_refused() -> Parts:
    """Return the error of a release that would narrow subjects."""
    with connected() as con:
        first = outcomes(con, f"CREATE ANONYMIZED VIEW v AS {PERSONS} WITH ({SUBJECTS})")
        con.execute("DELETE FROM people WHERE id = 8")
        return {"first": first, **attempt(lambda: {"second": outcomes(con, "REFRESH ANONYMIZED VIEW v WITH (on_intersection = 'error')")})}


# ---------------------------------------------------------------- EXPLAIN, functions, frames, files


@case
def frontier() -> Parts:
    """Return the frontiers of a policy with t and of one with k alone."""
    with connected(150) as con:
        create = "EXPLAIN CREATE ANONYMIZED VIEW v AS SELECT age, weight, charge FROM people WITH"
        options = "quasi_identifiers = (age, weight), sensitive = charge, k = 4"
        return {"t": outcomes(con, f"{create} ({options}, t = 0.25, effort = 'fast') FRONTIER"), "k": outcomes(con, f"{create} ({options}) FRONTIER"), "l": outcomes(con, f"{create} ({options}, l = 3, refine = false) FRONTIER")}


@case
def table_functions() -> Parts:
    """Return the rows of the table functions and of the scalar ones."""
    with connected() as con:
        con.execute("CREATE TABLE few AS SELECT id, age, weight, charge FROM people LIMIT 200")
        call = "('few', quasi_identifiers := ['age', 'weight'], sensitive := ['charge'], identifiers := ['id'], k := 4, t := 0.3)"
        return {
            "anonymize": rows_of(con.sql(f"FROM anonymize{call}")),
            "equivalence_classes": rows_of(con.sql(f"FROM equivalence_classes{call}")),
            "microaggregate": rows_of(con.sql("SELECT microaggregate(list([age::DOUBLE, weight::DOUBLE] ORDER BY id), 4) FROM few")),
            "emd_ordered": rows_of(con.sql("SELECT emd_ordered(list(charge::DOUBLE) FILTER (age > 50), list(charge::DOUBLE)) FROM few")),
        }


@case
def frames() -> Parts:
    """Return released tables of pandas, polars and Arrow."""
    import duckanon

    with connected(200) as con:
        table = con.sql("SELECT age, height, city, smoker, born, charge FROM people").to_arrow_table()
    policy = duckanon.Policy(quasi_identifiers=["age", "height", "city", "born"], sensitive="charge", insensitive="*", k=4, l=2)
    encoded = table.set_column(2, "city", table.column("city").dictionary_encode())
    ranges = duckanon.Policy(quasi_identifiers=["age", "city"], insensitive="*", k=4, recode={"age": "range", "city": "set"})
    pandas = duckanon.anonymize_table(table.to_pandas(), policy)
    parts = {
        "arrow": arrow_rows(duckanon.anonymize_table(table, policy)),
        "dictionary": arrow_rows(duckanon.anonymize_table(encoded, ranges)),
        "pandas": {"types": [str(kind) for kind in pandas.dtypes], "rows": pandas.to_csv().split("\n")},
        "swap": arrow_rows(duckanon.anonymize_table(table.select(["age", "height", "charge"]), duckanon.Policy(quasi_identifiers=["age", "height"], insensitive="*", k=4, release="swap"))),
    }
    import polars

    parts["polars"] = arrow_rows(duckanon.anonymize_table(polars.from_arrow(table), policy).to_arrow())
    return parts


@case
def exports() -> Parts:
    """Return what exported files hold, their audits, and that they are verified."""
    import duckdb

    with connected(200, hierarchies=True) as con, folder() as aside:
        create = "CREATE ANONYMIZED VIEW {} AS SELECT {} FROM people WITH ({})"
        outcomes(con, create.format("v", "age, zip, weight, diagnosis", "quasi_identifiers = (age, zip, weight), sensitive = diagnosis, k = 4, t = 0.4, recode = {zip: 'hierarchy', weight: 'range'}, distance = {diagnosis: 'hierarchical'}, hierarchies = {zip: 'zip_tree', diagnosis: 'icd'}"))
        outcomes(con, create.format("a", "age, zip, diagnosis", "quasi_identifiers = (age, zip), sensitive = diagnosis, k = 4, l = 3, release = 'anatomy'"))
        parts: Parts = {}
        for view in "va":
            for ending in ("duckdb", "parquet", "csv"):
                path = aside / f"{view}.{ending}"
                parts[f"{view}_{ending}"] = outcomes(con, f"EXPORT ANONYMIZED VIEW {view} TO '{path}'")
        parts["escaped"] = outcomes(con, f"EXPORT ANONYMIZED VIEW v TO '{aside / 'e.csv'}' WITH (csv_formulas = 'escape')")
        parts["texts"] = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in sorted(aside.glob("*.csv"))}
        parts["parquet"] = {one.name: rows_of(duckdb.read_parquet(str(one))) for one in sorted(aside.glob("*.parquet"))}
        for view in "va":
            parts[f"verify_{view}"] = unhashed(command("verify", aside / f"{view}.duckdb"))
            with duckdb.connect(str(aside / f"{view}.duckdb"), read_only=True) as file:
                parts[f"relations_{view}"] = [list(row) for row in file.sql("SELECT schema_name, table_name FROM duckdb_tables() UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()]
                parts[f"rows_{view}"] = rows_of(file.sql(f"FROM {view}"))
        return parts


@case
def owners_copy() -> Parts:
    """Return what the linkage attack, the workload and two releases tell the owner of the data."""
    with connected(240) as con, folder() as aside:
        con.execute(f"COPY (SELECT id, age, weight, city, charge FROM people) TO '{aside}/original.csv'")
        policy = 'identifiers = ["id"]\nquasi_identifiers = ["age", "weight", "city"]\nsensitive = ["charge"]\nk = 4\nt = 0.3\n'
        (aside / "policy.toml").write_text(policy)
        (aside / "loose.toml").write_text(policy.replace("t = 0.3", "p_percent = 12").replace("k = 4", "k = 6"))
        (aside / "queries.sql").write_text("SELECT city, count(*) AS n, avg(age) AS age FROM data GROUP BY city; SELECT corr(age, charge) AS r FROM data;")
        file = {name: aside / name for name in ("original.csv", "policy.toml", "loose.toml", "queries.sql", "old.csv", "new.csv")}
        return {
            "dry_run": command("anonymize", file["original.csv"], file["old.csv"], "--policy", file["policy.toml"], "--dry-run"),
            "anonymize": command("anonymize", file["original.csv"], file["old.csv"], "--policy", file["policy.toml"], "--effect"),
            "again": command("anonymize", file["original.csv"], file["new.csv"], "--policy", file["loose.toml"]),
            "old": file["old.csv"].read_text().split("\n"),
            "new": file["new.csv"].read_text().split("\n"),
            "linkage": command("linkage", file["original.csv"], file["old.csv"], "--id", "id", "--policy", file["policy.toml"], "--qi", "age,weight,city"),
            "nearest": command("linkage", file["original.csv"], file["old.csv"], "--qi", "age,weight,city", "--subset", "age,city"),
            "compare": command("compare", file["original.csv"], file["old.csv"], "--queries", file["queries.sql"]),
            "releases": command("compare-releases", file["old.csv"], file["new.csv"], "--qi", "age,weight,city", "--sensitive", "charge", "-k", 4),
            "audit": command("audit", file["old.csv"], "--qi", "age,weight,city", "--sensitive", "charge", "-k", 4, "-t", "0.2"),
            "suggest": command("suggest", file["original.csv"]),
        }


@case
def python_release() -> Parts:
    """Return a release from Python, its text, and the audit of it and of the bundled tables of Li 2007."""
    import duckanon

    with connected(200) as con:
        policy = duckanon.Policy(quasi_identifiers=["age", "zip"], sensitive="diagnosis", k=3, l=2, hierarchies={"zip": {f"{a}{i:03d}": [f"{a}***", "*"] for a in (12, 47, 80) for i in range(30)}}, recode={"zip": "hierarchy"})
        made = duckanon.anonymize(con, "SELECT age, zip, diagnosis FROM people", policy, name="v", effect=True)
        parts: Parts = {"text": steady(str(made)).split("\n"), "rows": rows_of(con.duckdb.sql("FROM v"))}
        for number in (2, 4, 5):
            table = f"'{FIXTURES / f'li_2007_table_{number}.csv'}'"
            asked = duckanon.AuditPolicy(quasi_identifiers=["zip_code", "age"], sensitive=["disease"], k=3, l=3, t=0.3)
            parts[f"li_{number}"] = attempt(lambda t=table, a=asked: {"report": plain(json.loads(duckanon.audit(con, t, a).to_json()))})
        return parts | evidence_of(con)


@case
def labels() -> Parts:
    """Return the labels of every method by `duckanon.partition`."""
    import numpy as np

    import duckanon

    draw = np.random.default_rng(11)
    points = np.round(draw.normal(size=(90, 3)), 2)
    salary, kind = draw.permutation(90), draw.integers(0, 5, 90)
    found: Parts = {"methods": [plain(asdict(method)) for method in duckanon.methods()]}
    for method in (*K_METHODS, "auto"):
        found[method] = attempt(lambda m=method: {"labels": duckanon.partition(points, k=4, method=m).tolist()})
    for method in (*T_METHODS, "auto"):
        found[f"t_{method}"] = attempt(lambda m=method: {"labels": duckanon.partition(points, k=3, method=m, sensitive=salary, t=0.2).tolist()})
    found["univariate"] = {"labels": duckanon.partition(points[:, :1], k=4, method="univariate").tolist()}
    found["refined"] = {"labels": duckanon.partition(points, k=4, method="auto", refine=True).tolist()}
    found["equal"] = {"labels": duckanon.partition(points, k=4, method="auto", sensitive=kind, t=0.3, distance="equal", refine=True).tolist()}
    found["loss"] = {"auto": repr(duckanon.information_loss(points, duckanon.partition(points, k=4, method="auto")))}
    return found


# ---------------------------------------------------------------- streams


def streamed(**options: Any) -> Parts:
    """Return what a stream gives out, and its report."""
    import duckanon

    with connected(600) as con:
        table = con.sql("SELECT person, age, height, city, seen, charge, diagnosis FROM people").to_arrow_table()
    chosen = table.select(options.pop("columns"))
    stream = duckanon.anonymize_stream(chosen.to_batches(max_chunksize=170), **options)
    batches = [arrow_rows(batch) for batch in stream]
    return {"batches": [batch["sha256"] for batch in batches], "first": batches[:2], "report": plain(stream.report.to_dict())}


@case
def stream_steered() -> Parts:
    """Return steered streams: with the order, subjects, growing classes, recoding."""
    return {
        "plain": streamed(columns=["age", "height", "city", "charge"], quasi_identifiers=["age", "height", "city"], k=5, delay=40),
        "order": streamed(columns=["age", "height", "charge"], quasi_identifiers=["age", "height"], k=4, delay=60, order_weight=0.01, cluster="grow"),
        "subject": streamed(columns=["person", "age", "seen", "charge"], quasi_identifiers=["age", "seen"], k=3, delay=50, subject="person", recode={"age": "range", "seen": "median"}, class_id=True),
    }


@case
def stream_t() -> Parts:
    """Return steered streams with t and l, from all tuples and from a window."""
    return {
        "t": streamed(columns=["age", "height", "charge"], quasi_identifiers=["age", "height"], k=4, delay=60, sensitive="charge", t=0.3),
        "l": streamed(columns=["age", "city", "diagnosis"], quasi_identifiers=["age", "city"], k=4, delay=60, sensitive="diagnosis", l=3, t=0.4, reference="window", window=200),
    }


@case
def stream_castle() -> Parts:
    """Return streams by CASTLE."""
    return {
        "plain": streamed(columns=["age", "height", "charge"], quasi_identifiers=["age"], identifiers=["height"], k=5, delay=80, method="castle", nulls="error"),
        "subject": streamed(columns=["person", "age", "seen"], quasi_identifiers=["age", "seen"], k=3, delay=60, subject="person", method="castle", nulls="error", clusters=8, recent=20),
    }


@case
def stream_table() -> Parts:
    """Return a stream of a connection into a table, with a hierarchy."""
    with connected(400, hierarchies=True) as con:
        report = con.stream("SELECT age, zip, charge FROM people", "t", quasi_identifiers=["age", "zip"], k=4, delay=50, recode={"zip": "hierarchy"}, hierarchies={"zip": "zip_tree"}, scale={"age": (0, 100)})
        return {"rows": rows_of(con.sql("FROM t")), "report": plain(report.to_dict())}
