"""Mistakes at the command line and in statements: each message says what is wrong, where, and what to do.

A message speaks in the words of its door: flags for flags, keys of TOML for a policy file, SQL for a statement.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.e2e.file_scene import run
from tests.e2e.scenes import CREATE, PATIENTS

if TYPE_CHECKING:
    from pathlib import Path

ANONYMIZE = "anonymize patients.csv out.csv --identifiers id --insensitive '*' "
"""Beginning of the lines of `RELEASES`."""

RELEASES = {
    "--qi age,zip": ("-k is missing: give it, as in -k 5, or a --policy file"),
    "--qi age,zip -k 1": ("-k 1: use an integer of at least 2, a class of one record hides nobody"),
    "--qi age,zip -k x": ("-k takes a whole number, as in -k 5"),
    "--qi age,zip -k 61": ("-k 61 is more than the 60 records of the source: use k <= 60"),
    "--qi age,zipp -k 3": (
        "--qi names 'zipp', which the source does not have, did you mean 'zip'? Columns: 'id', 'age', 'zip', 'charge', 'diagnosis'"
    ),
    "--qi age,age -k 3": ("--qi names column 'age' twice: leave one out"),
    "--qi age,zip -k 3 --sensitive charge -t 2": ("-t 2: use a number above 0 and at most 1"),
    "--qi age,zip -k 3 --sensitive charge -t charge=x": ("-t takes a number or column=number pairs, not 'x'"),
    "--qi age,zip -k 3 -t 0.2": ("-t 0.2 needs sensitive columns: add --sensitive ..."),
    "--qi age,zip -k 3 -t 0.2 --sensitive age": (
        "column 'age' is in --qi and in --sensitive: a column has one role"
    ),
    "--qi age,zip -k 3 --sensitive charge -t chrage=0.2": (
        "-t names 'chrage', which is not in --sensitive, did you mean 'charge'?"
    ),
    "--qi age,zip -k 3 --sensitive charge -l 12": (
        "distinct l-diversity with -l 12 is out of reach for 'charge': the whole table has -l 11; ask for l <= 11"
    ),
    "--qi age,zip -k 3 --sensitive charge -l 2 --l-diversity recursive": (
        "recursive l-diversity needs --c above 0: add --c 3, or another number"
    ),
    "--qi age,zip -k 3 --sensitive charge -l 2 --c 2": (
        "--c belongs to --l-diversity recursive: set that, or leave --c out"
    ),
    "--qi age,zip -k 3 --sensitive charge --distance charge=hierarchical": (
        "--distance of 'charge' is 'hierarchical' and has no tree: add --hierarchies charge=table"
    ),
    "--qi age,zip -k 3 --sensitive charge --distance charge=near": (
        "--distance charge=near is unknown: Use ordered | equal | hierarchical"
    ),
    "--qi age,zip -k 3 --recode zip=mean": (
        "--recode of 'zip' cannot be 'mean', which is for numbers, dates and timestamps: use 'mode' or 'set' for VARCHAR"
    ),
    "--qi age,zip -k 3 --levels age=3-1": (
        "--levels age=3-1: the range is upside down, put the lower level first"
    ),
    "--qi age,zip -k 3 --levels age=1-3": (
        "--levels of 'age' is of --method full_domain, not 'auto': set that, or leave it out"
    ),
    "--qi age,zip -k 3 --recode zip=hierarchy": (
        "--recode of 'zip' is 'hierarchy' and has none: add --hierarchies zip=table"
    ),
    "--qi age,zip -k 3 --recode charge=mean": (
        "--recode names 'charge', which is not in --qi, did you mean 'age'?"
    ),
    "--qi age,zip -k 3 --recode mean": ("--recode takes a value for each column: write --recode column=mean"),
    "--qi age,zip -k 3 --weights age=0": (
        "--weights age=0: use a number above 0, or another role for the column"
    ),
    "--qi age,zip -k 3 --method full_domain": (
        "--method full_domain climbs hierarchies and there are none: add --hierarchies age=table"
    ),
    "--qi age,zip -k 3 --objective precision": (
        "--objective precision is of --method full_domain, not 'auto': set that, or leave it out"
    ),
    "--qi age,zip -k 3 --steering-weight 5": (
        "--steering-weight 5 is of --method steered, not 'auto': set that, or leave it out"
    ),
    "--qi age,zip -k 3 --method steered --sensitive diagnosis -l 2 --steering-weight 0": (
        "--steering-weight 0: use a number above 0, where a quasi-identifier has 1"
    ),
    "--qi age,zip -k 3 --release anatomy": (
        "--release anatomy hides a person among the sensitive values of a class and no threshold is asked for: add -l 4, -t 0.2, or both"
    ),
    "--qi age,zip -k 3 --release anatmy": (
        "--release anatmy is unknown, did you mean 'anatomy'? Use table | anatomy | swap"
    ),
    "--qi age,zip -k 3 --release anatomy --sensitive diagnosis -l 2 --beta 1": (
        "--beta does not go with --release anatomy, whose quasi-identifiers are exact: use -l 4 or -t 0.2"
    ),
    "--qi age,zip -k 3 --suppression-limit 5": (
        "--suppression-limit 5: use a fraction of the records, not percent; 5 % is 0.05"
    ),
    "--qi age,zip -k 3 --nulls skip": ("--nulls skip is unknown: Use category | suppress | error"),
    "--qi age,zip -k 3 --effort fats": (
        "--effort fats is unknown, did you mean 'fast'? Use fast | balanced | best"
    ),
    "--qi age,zip -k 3 --time-limit 0": ("--time-limit 0.0: use seconds, a number above 0, or leave it out"),
    "--qi age,zip -k 3 --p-percent 0": ("--p-percent 0: use per cent, above 0 and below a million, as in 10"),
    "--qi age,zip -k 3 --min-values 0": ("--min-values 0: use an integer of at least 1"),
    "--qi age,zip -k 3 --digits age=99": (
        "--digits age=99: use an integer from -18 to 18, as in 2 for hundredths or -2 for hundreds"
    ),
    "--qi age,zip -k 3 --subject age": (
        "column 'age' is in --subject and in --qi: who is told by it needs no more; take it out of --qi"
    ),
    "--qi age,zip -k 3 --csv-formulas no": ("--csv-formulas no is unknown: Use keep | escape"),
    "--qi age,zip -k 3 --supression-limit 0.1": (
        "no option --supression-limit, did you mean --suppression-limit?"
    ),
}

COMMANDS = {
    "anonymize patients.csv out.csv -k 3": (
        "--qi is missing: give it, as in --qi age,zip, or a --policy file"
    ),
    "anonymize patients.csv out.csv --qi age,zip -k 3": (
        "no role for 'id', 'charge', 'diagnosis': give each a role, or add --insensitive '*' to release the rest as is"
    ),
    "anonymize patients.csv out.csv --qi age,zip -k 3 --insensitive zip": (
        "column 'zip' is in --qi and in --insensitive: a column has one role"
    ),
    "anonymize patients.csv out.xls --qi age,zip -k 3": (
        "cannot export to 'out.xls': the file must end in .duckdb, .parquet or .csv"
    ),
    "anonymize patients.csv patients.csv --policy p.toml": (
        "'patients.csv' is read by this command: give another file"
    ),
    "anonymize patients.csv out.csv --policy bad.toml": (
        "quasi_identifiers names column 'zip' twice: leave one out (policy file 'bad.toml')"
    ),
    "anonymize patients.csv out.csv --policy odd.toml": (
        "t = 2: use a number above 0 and at most 1 (policy file 'odd.toml')"
    ),
    "anonymize patients.csv out.csv --policy odd.toml --sensitive charge": (
        "t = 2: use a number above 0 and at most 1 (policy file 'odd.toml')"
    ),
    "anonymize patients.csv out.csv --policy odd.toml --sensitive charge -t 3": (
        "-t 3: use a number above 0 and at most 1"
    ),
    "anonymize patients.csv out.csv --policy notoml.toml": (
        "the policy is not TOML: Invalid value (at line 1, column 21) (policy file 'notoml.toml')"
    ),
    "anonymize patients.csv out.csv --policy nowhere.toml": (
        "cannot read the policy 'nowhere.toml': No such file or directory"
    ),
    "anonymize nowhere.csv out.csv --policy p.toml": ("'nowhere.csv' does not exist"),
    "anonymize hospital.duckdb out.csv --policy p.toml": ("'hospital.duckdb': give hospital.duckdb:table"),
    "anonymize empty.csv out.csv --policy p.toml": ("'empty.csv' is empty"),
    "audit patients.csv -k 3": ("--qi is missing: give it, as in --qi age,zip, or a --policy file"),
    "audit patients.csv --qi age -k 0": (
        "-k 0: use an integer of at least 2, a class of one record hides nobody"
    ),
    "audit patients.csv --qi agee -k 3": (
        "--qi names 'agee', which the source does not have, did you mean 'age'? Columns: 'id', 'age', 'zip', 'charge', 'diagnosis'"
    ),
    "audit patients.csv --qi age -t 0.2": ("-t 0.2 needs sensitive columns: add --sensitive ..."),
    "audit patients.csv --qi age --format xml": (
        "unknown format 'xml': use text, json, junit, sarif or html"
    ),
    "audit patients.csv --qi age --original patients.csv": (
        "--original is for --format html, which shows the table before and after"
    ),
    "audit patients.csv --qi age --frontier": (
        "--frontier measures the table that the release was made from: give --original"
    ),
    "audit patients.csv --qi age --against p.toml": (
        "--against: 'p.toml' is not a saved audit: Expecting value: line 1 column 1 (char 0); save an audit with --format json -o FILE"
    ),
    "audit patients.csv --qi age -o patients.csv": (
        "-o 'patients.csv' is read by this command: give another file"
    ),
    "verify hospital.duckdb --format sarif": ("unknown format 'sarif': use text, json or html"),
    "verify nowhere.duckdb": ("'nowhere.duckdb' does not exist"),
    "compare patients.csv patients.csv": (
        "--queries is missing: give a file of SELECT statements over a relation called data"
    ),
    "compare patients.csv patients.csv --queries nowhere.sql": (
        "cannot read the queries 'nowhere.sql': No such file or directory"
    ),
    "compare-releases patients.csv patients.csv": (
        "--qi is missing: give it, as in --qi age,zip; the files do not name quasi-identifiers"
    ),
    "compare-releases patients.csv patients.csv --qi age": (
        "-k is missing: give it, as in -k 5; the files do not name it"
    ),
    "linkage patients.csv patients.csv": ("--qi is missing: give it, as in --qi age,zip"),
    "linkage patients.csv patients.csv --qi age --interval rnge": (
        "unknown interval 'rnge': use range, rank or sd"
    ),
    "suggest patients.csv --sql --format json": (
        "--sql is the statement alone, --format json is something else: give one of both"
    ),
    "stream patients.csv out.csv": ("--qi is missing: give it, as in --qi age,zip"),
    "stream patients.csv out.csv --qi age --delay 5 -k 10": (
        "--delay 5: use a whole number of at least 9 (k - 1, for classes of -k 10)"
    ),
    "stream patients.csv out.csv --qi age --method castle -t 0.2 --sensitive charge": (
        "-t is for --method steered: leave it out for 'castle'"
    ),
    "stream patients.csv out.csv --qi age --scale age=0": ("--scale takes column=low:high pairs, not age=0"),
    "stream patients.csv out.csv --qi age --distance ordered": (
        "--distance takes column=value pairs, not 'ordered'"
    ),
    "stream patients.csv out.csv --qi age --nulls suppress": (
        "--nulls suppress: use category | error; a tuple that is to be left out is left out before the stream, so that the delay of the others is what it says"
    ),
    "stream patients.csv out.tsv --qi age": ("a CSV is written with commas: give 'out.tsv' the ending .csv"),
    "stream patients.csv out.csv --qi age --recode age=mode --method castle": (
        "--recode mode of 'age': --method castle releases ranges; use 'range', or leave it out, or use --method steered"
    ),
    "list patients.csv": ("'patients.csv' is no DuckDB database: give a .duckdb file"),
    "list nowhere.duckdb": ("'nowhere.duckdb' does not exist"),
    "refresh hospital.duckdb:w": (
        "'hospital.duckdb:w' is no release: duckanon list hospital.duckdb shows them"
    ),
    "refresh hospital.duckdb:v --mode append": (
        "--mode append has to know which rows of the source are new, and hospital.main.v names nobody: make it with subject = (...), the columns that tell whose a row is"
    ),
    "refresh hospital.duckdb --mode ful": ("--mode ful is unknown, did you mean 'full'? Use full | append"),
    "refresh patients.csv": ("'patients.csv' is no DuckDB database: give a .duckdb file"),
    "run hospital.duckdb": (
        "'hospital.duckdb' is a database, not a script: give a script, as in duckanon run FILE.sql --database hospital.duckdb"
    ),
    "run nowhere.sql": ("cannot read the script 'nowhere.sql': No such file or directory"),
    "sql hospital.duckdb": (
        "'hospital.duckdb' is a database, not a statement: duckanon sql \"...\" --database hospital.duckdb"
    ),
    "spark audit x": ("--qi is missing: give it, as in --qi age,zip, or a --policy file"),
    "anonymize patients.csv": (
        "OUT is missing: the form is duckanon anonymize IN OUT, with options; duckanon anonymize -h tells more"
    ),
    "suggest hospital.duckdb patients": (
        "'patients' is too much: the form is duckanon suggest TABLE, with options; duckanon suggest -h tells more"
    ),
    "audit patients.csv --qi age, zip -k 3": ("'zip' is too much: a list has no blank after a comma"),
    "audit hospital.duckdb:patient --qi age": (
        "database 'hospital.duckdb': there is no table 'patient', did you mean 'patients'? Tables: 'patients', 'v'"
    ),
    "verify hospital.duckdb:v": (
        "'hospital.duckdb:v': verify judges every release of a file: give 'hospital.duckdb'"
    ),
    "demo --export build/census.duckdb": (
        "cannot export to 'build/census.duckdb': the folder 'build' does not exist"
    ),
    "demo --export hospital.duckdb": ("'hospital.duckdb' exists: the demo never overwrites, give a new name"),
    "anonimize": ("no command 'anonimize', did you mean 'anonymize'?"),
}

STATEMENTS = {
    "CREATE ANONYMIZED VIEW w AS FROM patients WITH (quasi_identifiers = (age, zip), k = 3)": (
        "no role for 'id', 'charge', 'diagnosis': give each a role, or add insensitive = * to release the rest as is"
    ),
    "CREATE ANONYMIZED VIEW w AS FROM patients WITH (quasi_identifiers = (age, zip), insensitive = *, k = 61)": (
        "k = 61 is more than the 60 records of the source: use k <= 60"
    ),
    "CREATE ANONYMIZED VIEW w AS FROM patients WITH (quasi_identifiers = (age), insensitive = *, k = 3, t = 0.2)": (
        "t = 0.2 needs sensitive columns: add sensitive = (...)"
    ),
    "CREATE ANONYMIZED VIEW w AS FROM patients WITH (quasi_identifiers = (age, zipp), insensitive = *, k = 3)": (
        "quasi_identifiers names 'zipp', which the source does not have, did you mean 'zip'? Columns: 'id', 'age', 'zip', 'charge', 'diagnosis'"
    ),
    "CREATE ANONYMIZED VIEW w AS FROM patient WITH (quasi_identifiers = (age), insensitive = *, k = 3)": (
        "the source query fails: Catalog Error: Table with name patient does not exist! (line 1, column 34)"
    ),
    "CREATE ANONYMIZED VIEW v AS FROM patients WITH (quasi_identifiers = (age), insensitive = *, k = 3)": (
        "hospital.main.v exists: use CREATE OR REPLACE ANONYMIZED VIEW or REFRESH ANONYMIZED VIEW"
    ),
    "CREATE ANONYMIZED VIEW w AS FROM patients": (
        "WITH (...) is missing at the end: write CREATE [OR REPLACE] ANONYMIZED VIEW [IF NOT EXISTS] name AS query WITH (option = value, ...) (line 1, column 42)"
    ),
    "CREATE ANONYMISED VIEW w AS FROM patients WITH (k = 3)": (
        "'ANONYMISED' is no keyword of DuckDB or duckanon: write CREATE ANONYMIZED VIEW (line 1, column 8)"
    ),
    "REFRESH ANONYMIZED VIEW v WITH (mode = 'ful')": (
        "mode = 'ful' is unknown, did you mean 'full'? Use full | append (line 1, column 33)"
    ),
    "REFRESH ANONYMIZED VIEW v WITH (k = 3)": (
        "option 'k' is not one of REFRESH, the view keeps its own: CREATE OR REPLACE ANONYMIZED VIEW gives it others; options here: mode, on_intersection (line 1, column 33)"
    ),
    "EXPORT ANONYMIZED VIEW v TO 'v.txt'": (
        "cannot export to 'v.txt': the file must end in .duckdb, .parquet or .csv"
    ),
    "EXPORT ANONYMIZED VIEW v": (
        "expected TO 'file' after the name of the view, found the end of the statement (line 1, column 25)"
    ),
    "SELECT * FROM anonymize('patients', quasi_identifiers := ['age'], k := 5, alpha := 50)": (
        "alpha = 50: use a number above 0 and at most 1"
    ),
    "AUDIT VIEW w": ("hospital.main.w is not an anonymized view; SHOW ANONYMIZED VIEWS lists them"),
    "AUDIT TABLE patients WITH (quasi_identifiers = (age), kk = 3)": (
        "unknown option 'kk', did you mean 'k'? Options: quasi_identifiers, sensitive, k, t, n, l, l_diversity, c, alpha, delta, beta, enhanced_beta, joint_t, joint_distance, distance, order, hierarchies, suppressed, k_subsets (line 1, column 55)"
    ),
    "AUDIT TABLE patients": (
        "option 'quasi_identifiers' is missing: write quasi_identifiers = (age, zip) in WITH (...)"
    ),
    "EXPLAIN ANONYMIZED VIEW w": (
        "hospital.main.w is not an anonymized view; SHOW ANONYMIZED VIEWS lists them"
    ),
    "SHOW ANONYMIZED VIEW": ("expected VIEWS after SHOW ANONYMIZED, found 'VIEW' (line 1, column 17)"),
    "DROP ANONYMIZED VIEW w": ("hospital.main.w is not an anonymized view; SHOW ANONYMIZED VIEWS lists them"),
}

FILES = {
    "p.toml": 'quasi_identifiers = ["age", "zip"]\nidentifiers = ["id"]\ninsensitive = "*"\nk = 3\n',
    "bad.toml": 'quasi_identifiers = ["age", "ZIP", "zip"]\nk = 3\n',
    "odd.toml": 'quasi_identifiers = ["age"]\nk = 3\nt = 2\n',
    "notoml.toml": "quasi_identifiers = (age)\n",
    "empty.csv": "",
}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with sixty patients, as CSV and in a database with an anonymized view of them."""
    folder = tmp_path_factory.mktemp("mistakes")
    with duckdb.connect(str(folder / "hospital.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute(f"COPY patients TO '{folder / 'patients.csv'}'")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert run(folder, "sql", CREATE, "-d", "hospital.duckdb")[0] == 0
    return folder


def require_error(folder: Path, arguments: list[str], message: str) -> None:
    """Fail unless a command ends with this message alone, and writes nothing."""
    before = sorted(folder.iterdir())
    assert run(folder, *arguments) == (2, "", f"error: {message}\n")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("line", RELEASES)
def test_a_mistake_in_a_release_is_told_in_flags(hospital: Path, line: str) -> None:
    require_error(hospital, shlex.split(ANONYMIZE + line), RELEASES[line])


@pytest.mark.parametrize("line", COMMANDS)
def test_a_mistake_in_a_command_is_told_in_its_words(hospital: Path, line: str) -> None:
    require_error(hospital, shlex.split(line), COMMANDS[line])


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_mistake_in_a_statement_is_told_in_sql(hospital: Path, text: str) -> None:
    require_error(hospital, ["sql", text, "-d", "hospital.duckdb"], STATEMENTS[text])


NAMED = (
    "anonymize IN OUT --report --evidence --policy", "audit SOURCE --output --policy --original --against",
    "suggest TABLE --output", "verify FILE --output", "run FILE --database", "sql TEXT --database --picture",
    "list DATABASE", "refresh RELEASE", "compare ORIGINAL RELEASE --queries --output",
    "linkage ORIGINAL RELEASE --output", "compare-releases OLDER NEWER", "stream IN OUT --report",
    "demo --export", "spark anonymize IN OUT --policy", "spark audit IN", "sql-kit DIR",
)  # fmt: skip
"""Commands with their arguments and options that name a file, a folder or a statement."""


@pytest.mark.parametrize("line", NAMED)
def test_an_empty_name_is_an_error(tmp_path: Path, line: str) -> None:
    """An unset variable of the shell; an empty path would be the current folder."""
    words = line.split()
    names = [word for word in words if word.isupper()]
    command = [word for word in words if word.islower() and not word.startswith("--")]
    for name in words[len(command) :]:
        places = ["" if one == name else "x" for one in names]
        more = [name, ""] if name not in names else []
        require_error(
            tmp_path, [*command, *places, *more],
            f"{name} is empty: give a value; a variable of the shell may be unset",
        )  # fmt: skip


def test_a_missing_table_without_a_database_says_that_there_is_none(tmp_path: Path) -> None:
    missing = "error: Catalog Error: Table with name patients does not exist!\n"
    for more, why in ([], "no --database is given"), (["-d", "new.duckdb"], "'new.duckdb' is new"):
        told = f"note: {why}, so there are no tables but those of this script\n"
        assert run(tmp_path, "sql", "FROM patients", *more) == (2, "", told + missing)
    assert run(tmp_path, "sql", "FROM patients", "-d", "new.duckdb") == (2, "", missing)


def test_no_message_at_the_command_line_speaks_sql() -> None:
    """The one that asks for a CREATE with a subject does, since no flag of its command makes a view."""
    sql = re.compile(r"\w = [('{*\w]|\b[a-z]+_[a-z]+ (?:names|of)\b")
    told = {line: message for line, message in {**RELEASES, **COMMANDS}.items() if "--policy" not in line}
    assert [line for line, message in told.items() if sql.search(message)] == [
        "refresh hospital.duckdb:v --mode append"
    ]
    assert len(RELEASES) + len(COMMANDS) + len(STATEMENTS) > 100
