"""duckanon verify on the folder of a release that Spark made: no Spark is there, and nothing in it is believed."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from duckanon.audits.run import audit_relation
from duckanon.cli.verify import verify
from duckanon.database.file_room import SPARK_COLUMNS, SPARK_VERSION
from duckanon.database.fingerprint import digest
from duckanon.errors import DuckanonError
from duckanon.policy.policy import Policy
from duckanon.release.folders import RECORD_MAX_BYTES
from tests.e2e.folder_scene import ASKED, FIRST, ILL, SECOND, folder_of, records, rewritten, verified
from tests.e2e.scenes import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "released")


def test_what_nobody_touched_is_verified(folder: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    done = command("verify", f"{folder}/", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"folder '{folder}', made at an unknown time\nfingerprint: ")
    assert '\n  quasi_identifiers = ["age", "seen"]\n  k = 3\n' in done.stdout, "what was asked is told"
    assert (
        "note: information loss, suppressed records, warnings, versions and settings are what the evidence says"
        in done.stdout
    )
    assert done.stdout.splitlines()[-1].startswith("verified: 1 release, 1 recorded audit; ")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is written"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["it's", 'a "b"', "data[1]", "wh*t?", "year=2024", "_hidden", ".hidden", "a.duckdb:t", "ü b"]
)
def test_a_folder_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Beside it is what a pattern, or a folder that is taken for a column, would find."""
    folder_of(
        tmp_path / "data1", records().slice(0, 6), Policy(quasi_identifiers="age", insensitive="*", k=3)
    )
    folder = folder_of(tmp_path / name)
    assert verified(folder, capsys) == (0, [])
    folder.rename(tmp_path / f"{name}2")
    assert verified(tmp_path / f"{name}2", capsys) == (0, []), "it may move"


def test_files_of_any_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f".{FIRST}.crc").unlink()
    (folder / FIRST).rename(folder / "x=1 it's [a]*.parquet")
    assert verified(folder, capsys) == (0, [])


def test_what_was_kept_elsewhere_is_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = json.loads((folder / "_duckanon.json").read_text())
    kept = [evidence["fingerprint"].upper(), evidence["policy_hash"]]
    assert verified(folder, capsys, expect=kept) == (0, [])
    code, found = verified(folder, capsys, expect=["0" * 64], head=["1" * 64])
    assert (code, [line.partition(" was expected, ")[0] for line in found]) == (1, ["0" * 64, "1" * 64])


def changed(folder: Path, change: Callable[[pa.Table], pa.Table], name: str = SECOND) -> None:
    pq.write_table(change(pq.read_table(folder / name)), folder / name, store_schema=False)


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def weaker(evidence: dict[str, Any]) -> None:
    """Ask less, with the hash of that."""
    evidence["policy"] = evidence["policy"].replace("k = 3", "k = 2")
    evidence["policy_hash"] = digest(evidence["policy"])


def stricter(evidence: dict[str, Any]) -> None:
    evidence["policy"] = evidence["policy"].replace("k = 3", "k = 4")
    evidence["policy_hash"] = digest(evidence["policy"])


def asking(line: str) -> Callable[[Path], None]:
    """Change the policy to one with another line, hash and all."""

    def change(evidence: dict[str, Any]) -> None:
        evidence["policy"] += line
        evidence["policy_hash"] = digest(evidence["policy"])

    return lambda folder: rewritten(folder, change)


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a value": (
        lambda folder: changed(folder, lambda t: with_column(t, "pay", pc.add(t["pay"], 1.0))),
        "fingerprint recorded v2:[0-9a-f]{64}, found",
    ),
    "a value that is gone": (
        lambda folder: changed(folder, lambda t: with_column(t, "note", pa.array([None] * 7, pa.string()))),
        "fingerprint recorded",
    ),
    "a time by its zone": (
        lambda folder: changed(
            folder, lambda t: with_column(t, "seen", pc.add(t["seen"], pa.scalar(3600_000_000, pa.duration("us"))))
        ),
        "fingerprint recorded",
    ),
    "a row removed": (lambda folder: changed(folder, lambda t: t.slice(1)), "records recorded 12, found 11"),
    "a row added": (
        lambda folder: changed(folder, lambda t: pa.concat_tables([t, t.slice(0, 1)])),
        "records recorded 12, found 13",
    ),
    "a class that breaks k": (lambda folder: changed(folder, lambda t: t.slice(2)), "verdict passed -> VIOLATED"),
    "a file removed": (lambda folder: (folder / SECOND).unlink(), "records recorded 12, found 5"),
    "a file removed, its sum left": (
        lambda folder: (folder / SECOND).unlink(),
        rf"holds '\.{SECOND}\.crc', which is the sum of a file that is gone",
    ),
    "all files removed": (
        lambda folder: [(folder / name).unlink() for name in (FIRST, SECOND)],
        "the records cannot be read: no Parquet file of a release is in the folder",
    ),
    "a file of no records in place of all": (
        lambda folder: [changed(folder, lambda t: t.slice(0, 0), name) for name in (FIRST, SECOND)],
        "is empty",
    ),
    "a file added": (
        lambda folder: shutil.copy(folder / FIRST, folder / "part-00002.parquet"),
        "records recorded 12, found 17",
    ),
    "a file replaced by the other": (
        lambda folder: shutil.copy(folder / FIRST, folder / SECOND),
        "records recorded 12, found 10",
    ),
    "a file that is no Parquet": (
        lambda folder: (folder / SECOND).write_text("age,zip\n1,2\n" * 9),
        "the records cannot be read: verify: ",
    ),
    "a file cut off": (
        lambda folder: (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:-20]),
        "the records cannot be read: verify: ",
    ),
    "a column that only the second file has": (
        lambda folder: changed(folder, lambda t: t.append_column("name", pa.array(["Ann"] * 7))),
        f"the records cannot be read: '{FIRST}' has the columns .*, and '{SECOND}' .*name VARCHAR$",
    ),
    "a column of another type in the second file": (
        lambda folder: changed(folder, lambda t: with_column(t, "age", t["age"].cast(pa.int32()))),
        f"and '{SECOND}' age INTEGER, ",
    ),
    "a nested column": (
        lambda folder: [
            changed(folder, lambda t: t.append_column("x", pa.array([[1]] * t.num_rows)), n) for n in (FIRST, SECOND)
        ],
        r"column 'x' has a type that no release on Spark has: .*\[\]$",
    ),
    "an identifier": (
        lambda folder: [
            changed(folder, lambda t: t.append_column("Name", pa.array(["Ann"] * t.num_rows)), n)
            for n in (FIRST, SECOND)
        ],
        "the records have the column 'Name', an identifier, which the recorded policy drops",
    ),
    "a column without a role": (
        lambda folder: [
            changed(folder, lambda t: t.append_column("x", pa.array([1] * t.num_rows)), n) for n in (FIRST, SECOND)
        ],
        "the records have a column 'x', and the recorded policy gives it no role",
    ),
    "a column dropped": (
        lambda folder: [changed(folder, lambda t: t.drop_columns(["note"]), n) for n in (FIRST, SECOND)],
        "the recorded policy releases the column 'note', and the records do not have it",
    ),
    "a quasi-identifier dropped": (
        lambda folder: [changed(folder, lambda t: t.drop_columns(["age"]), n) for n in (FIRST, SECOND)],
        "the release cannot be audited: quasi_identifiers names 'age'",
    ),
    "a Parquet file that DuckDB reads and Spark does not": (
        lambda folder: shutil.copy(folder / FIRST, folder / "_evil.parquet"),
        "holds '_evil.parquet', which Spark passes over",
    ),
    "a hidden Parquet file": (
        lambda folder: shutil.copy(folder / FIRST, folder / ".evil.parquet"),
        r"holds '\.evil\.parquet', which Spark passes over",
    ),
    "a file that Spark reads and a pattern does not": (
        lambda folder: shutil.copy(folder / FIRST, folder / "more"),
        "holds 'more', which is not called .parquet, and Spark would read it",
    ),
    "a folder in it": (
        lambda folder: shutil.copytree(folder, folder.parent / "x") and shutil.move(folder.parent / "x", folder / "a=1"),
        "holds 'a=1', which is a folder",
    ),
    "a folder called as a file": (
        lambda folder: (folder / "part-00002.parquet").mkdir(),
        "holds 'part-00002.parquet', which is a folder",
    ),
    "a link": (
        lambda folder: [
            shutil.move(folder / SECOND, folder.parent / "elsewhere.parquet"),
            (folder / SECOND).symlink_to(folder.parent / "elsewhere.parquet"),
        ],
        f"holds '{SECOND}', which is a link",
    ),
    "a pipe, which would never end": (
        lambda folder: os.mkfifo(folder / "part-00002.parquet"),
        "holds 'part-00002.parquet', which is no regular file",
    ),
    "something in the file that says that all is there": (
        lambda folder: (folder / "_SUCCESS").write_text("Ann has the flu"),
        "holds '_SUCCESS'",
    ),
    "the policy alone": (
        lambda folder: rewritten(folder, lambda e: e.update(policy=e["policy"].replace("k = 3", "k = 2"))),
        "policy hash recorded [0-9a-f]{64}, found [0-9a-f]{64} of the recorded policy",
    ),
    "the policy, weaker, and its hash": (
        lambda folder: rewritten(folder, weaker),
        "recorded -> found: k_anonymity: threshold 3 -> 2",
    ),
    "the policy, stricter than the records keep, and its hash": (
        lambda folder: rewritten(folder, stricter),
        "recorded -> found: k_anonymity: threshold 3 -> 4, violations 0 -> 4, .*verdict passed -> VIOLATED",
    ),
    "a policy with a remark": (asking("# k = 1000\n"), "is not written as duckanon writes it"),
    "a policy that is none": (asking("zip\n"), "the recorded policy cannot be read: the policy is not TOML"),
    "a policy without end": (asking("seed = " + "[" * 100_000), "the recorded policy cannot be read: the policy has brackets"),
    "a policy with an option that is unknown": (asking("q = 1\n"), "cannot be read: unknown option 'q'"),
    "a policy with a hierarchy": (
        asking("hierarchies = {age = '/etc/passwd'}\n"),
        "the recorded policy asks for hierarchies, and no release on Spark",
    ),
    "a policy with what the records do not tell": (asking('subject = "x"\n'), "asks for subject"),
    "a recorded value": (
        lambda folder: rewritten(folder, lambda e: e["audit"]["measures"][0].update(value=9)),
        "recorded -> found: k_anonymity: value 9 -> 3",
    ),
    "a recorded row deleted": (
        lambda folder: rewritten(folder, lambda e: e["audit"]["measures"].pop(2)),
        "recorded -> found: t_closeness of .*: appeared",
    ),
    "a recorded row added": (
        lambda folder: rewritten(folder, lambda e: e["audit"]["measures"].append(e["audit"]["measures"][0])),
        "recorded -> found: k_anonymity: disappeared",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("what", TAMPERED)
def test_who_changes_it_is_found_out(folder: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    tamper, message = TAMPERED[what]
    tamper(folder)
    code, found = verified(folder, capsys)
    assert code == 1
    assert any(re.search(message, line) for line in found), found


def test_what_is_no_part_of_the_release_is_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One difference a file, and none of the records: those are as they were."""
    for name in ("_evil.parquet", ".evil.parquet", "evil"):
        shutil.copy(folder / FIRST, folder / name)
    (folder / "evil2.parquet").symlink_to(folder / FIRST)
    assert [line.partition(", ")[0] for line in verified(folder, capsys)[1]] == [
        "the folder holds '.evil.parquet'", "the folder holds '_evil.parquet'", "the folder holds 'evil'",
        "the folder holds 'evil2.parquet'",
    ]  # fmt: skip
    for number in range(30):
        (folder / f"x{number}").touch()
    found = verified(folder, capsys)[1]
    assert (len(found), found[-1]) == (21, "the folder holds 14 more that are no part of a release")


LEAVES_AS_THEY_ARE = {"information_loss", "suppressed", "versions", "settings"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the place of every value in the evidence that is no object and no list of some."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [one for key, part in inside for one in leaves(part, (*path, key))]
    yield from below or [path]


@pytest.mark.slow
def test_no_value_of_the_evidence_can_be_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that the records do not tell may, which a note says."""
    evidence = (folder / "_duckanon.json").read_text()
    verifies = set()
    for path in leaves(json.loads(evidence)):
        changed = json.loads(evidence)
        place = changed
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        place[path[-1]] = (
            not old if isinstance(old, bool) else f"{old}0" if isinstance(old, str) else 7 if old is None else
            [1] if isinstance(old, list) else old + 1
        )  # fmt: skip
        (folder / "_duckanon.json").write_text(json.dumps(changed, indent=2) + "\n")
        try:
            code, found = verified(folder, capsys)
        except DuckanonError as error:
            code, found = 2, [str(error)]
        assert (code != 0) is bool(found)
        if code == 0:
            verifies.update({path[0], path[-1]} & LEAVES_AS_THEY_ARE or {path})
    assert verifies == LEAVES_AS_THEY_ARE


def test_whoever_changes_all_of_it_is_found_by_what_was_kept_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key is involved: evidence that was made anew for other records and another policy verifies."""
    before = json.loads((folder / "_duckanon.json").read_text())
    shutil.rmtree(folder)
    folder_of(folder, records(), Policy(quasi_identifiers="age", insensitive="*", k=2))
    assert verified(folder, capsys) == (0, [])
    code, found = verified(folder, capsys, expect=[before["fingerprint"], before["policy_hash"]])
    assert (code, [line.partition(" ")[0] for line in found]) == (1, [before["policy_hash"]])


def test_a_release_that_breaks_its_policy_is_none_whatever_is_recorded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record of a violation is true, and yet nothing that was published."""

    def violated(evidence: dict[str, Any]) -> None:
        evidence["policy"] = evidence["policy"].replace("k = 3", "k = 4")
        evidence["policy_hash"] = digest(evidence["policy"])
        with duckdb.connect() as con:
            con.register("released", records())
            report = audit_relation(con, "released", Policy.from_toml(evidence["policy"]), name="release")
        evidence["audit"] = {**json.loads(report.to_json()), "warnings": [], "violations": []}

    rewritten(folder, violated)
    assert verified(folder, capsys) == (1, [])


def odd(**values: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **values})


def without(name: str) -> Callable[[str], str]:
    return lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != name})


UNREADABLE: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "nothing": (lambda _: "", "is empty"),
    "no JSON": (lambda text: text[:-20], "it is not JSON: "),
    "no UTF-8": (lambda text: text.encode("utf-16"), "it is not UTF-8"),
    "a list": (lambda text: f"[{text}]", "the file is not an object"),
    "a value that is not JSON": (lambda text: text.replace("12.5", "NaN"), "NaN is not JSON"),
    "a number without end": (lambda text: text.replace("12.5", "9" * 5000), "no evidence of a release"),
    "too deep": (lambda _: "[" * 200_000, "it is nested too deeply"),
    "too long": (lambda text: text + " " * RECORD_MAX_BYTES, f"it is longer than {RECORD_MAX_BYTES} bytes"),
    "a name twice": (lambda text: text.replace("{", '{"policy": "", ', 1), "'policy' stands twice in it"),
    "a name that is unknown": (odd(x=1), "the file has 'x', which is not known here"),
    **{
        f"no {name}": (without(name), f"the file lacks '{name}'")
        for name in ("policy", "policy_hash", "fingerprint", "records", "audit", "information_loss", "suppressed", "versions")
    },
    "half a letter": (odd(policy="\ud800"), "'policy' of the file is not a text"),
    "records as text": (odd(records="12"), "'records' of the file is not a count"),
    "records as a fraction": (odd(records=12.0), "'records' of the file is not a count"),
    "records that are true": (odd(records=True), "'records' of the file is not a count"),
    "no report": (odd(audit=[]), "'audit' of the file is not a report"),
    "an empty report": (odd(audit={}), "its audit lacks 'passed'"),
    "a version without text": (odd(versions={"duckanon": 1}), "'versions' of the file is not texts by name"),
    "a measure that is a list": (
        lambda text: text.replace('"measures": [', '"measures": [[], '), "a measure of its audit is not an object",
    ),
    "a value that is a list": (lambda text: text.replace('"value": 3.0', '"value": []'), "is not a number or null"),
    "a verdict that is text": (lambda text: text.replace('"passed": null', '"passed": "yes"'), "is not true, false"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNREADABLE)
def test_evidence_that_cannot_be_read_is_an_error_of_one_line(folder: Path, what: str) -> None:
    change, message = UNREADABLE[what]
    text = change((folder / "_duckanon.json").read_text())
    (folder / "_duckanon.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DuckanonError) as raised:
        verify(folder)
    assert message in str(raised.value)
    assert str(folder / "_duckanon.json") in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_the_exit_code_of_an_error_is_two(folder: Path, tmp_path: Path) -> None:
    (folder / "_duckanon.json").write_text("{}")
    done = command("verify", str(folder), cwd=tmp_path)
    where = folder / "_duckanon.json"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: '{where}' is no evidence of a release: the file lacks 'policy'\n"


@pytest.mark.parametrize("what", ["nothing", "a link to nothing", "a folder", "a pipe"])
def test_a_folder_without_evidence(folder: Path, what: str) -> None:
    file = folder / "_duckanon.json"
    file.unlink()
    make: dict[str, Callable[[], object]] = {
        "nothing": lambda: None, "a link to nothing": lambda: file.symlink_to("nowhere"), "a folder": file.mkdir,
        "a pipe": lambda: os.mkfifo(file),
    }  # fmt: skip
    make[what]()
    message = {
        "nothing": "is a folder without _duckanon.json",
        "a link to nothing": "which does not exist",
        "a folder": "is a folder: give a file",
        "a pipe": "is a pipe or a device",
    }[what]
    with pytest.raises(DuckanonError, match=message):
        verify(folder)


def test_a_path_of_which_duckdb_cannot_be_told(folder: Path) -> None:
    """That is no change of the release, so no difference."""
    with pytest.raises(DuckanonError, match="has a backslash and one of"):
        verify(folder.rename(folder.parent / "a\\b[1]"))


def test_evidence_that_is_elsewhere_is_not_that_of_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.move(folder / "_duckanon.json", folder.parent / "other.json")
    (folder / "_duckanon.json").symlink_to(folder.parent / "other.json")
    code, found = verified(folder, capsys)
    assert (code, len(found)) == (1, 1)
    assert found[0].startswith("the folder holds '_duckanon.json', which is a link")


def test_a_file_that_lies_about_its_values_is_read_all_the_same_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its statistics say that all are 30, and DuckDB, asked for other ages, believes them."""
    table = pa.table({"age": [30] * 5 + [31_000] * 5 + [42_000] * 5})
    folder = folder_of(tmp_path / "released", table, Policy(quasi_identifiers="age", k=5))
    (folder / f".{FIRST}.crc").unlink()
    (folder / FIRST).unlink()
    pq.write_table(table, folder / SECOND, store_schema=False)
    assert verified(folder, capsys) == (0, []), "all records in one file"
    text = (folder / SECOND).read_bytes()
    foot = len(text) - 8 - struct.unpack("<i", text[-8:-4])[0]
    lying = text[foot:].replace(struct.pack("<q", 42_000), struct.pack("<q", 30))
    assert lying != text[foot:]
    (folder / SECOND).write_bytes(text[:foot] + lying)
    with duckdb.connect() as con:
        asked = f"SELECT count(*) FROM read_parquet('{folder / SECOND}') WHERE age > 30"
        assert con.execute(asked).fetchall() == [(0,)]
    lie = 'the file\'s statistics contradict its rows: column "age", stated max 30, found 42000'
    assert verified(folder, capsys) == (1, [lie])


def test_the_scene_has_what_is_hard(folder: Path) -> None:
    table = pq.read_table([folder / FIRST, folder / SECOND])
    assert all(table[name].null_count for name in ("age", ILL, "pay", "note"))
    assert str(table.schema.field("seen").type) == "timestamp[us, tz=UTC]"
    assert ASKED.to_toml() == json.loads((folder / "_duckanon.json").read_text())["policy"]


def test_blanks_in_the_evidence_are_a_difference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "_duckanon.json"
    text = file.read_text()
    file.write_text(text.replace("{", "{" + " " * 3_000_000, 1))
    bytes_of_it = f"it has {len(text) + 3_000_000} bytes, its content takes {len(text)}"
    assert verified(folder, capsys) == (1, [f"_duckanon.json is not as duckanon writes it: {bytes_of_it}"])


def test_the_name_of_the_audit_is_always_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten(folder, lambda evidence: evidence["audit"].update(name="Ann has the flu"))
    line = "the recorded audit is called 'Ann has the flu', and duckanon calls it 'release'"
    assert verified(folder, capsys) == (1, [line])


def test_the_head_binds_all_that_the_evidence_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Information loss is what the writer says; whoever kept the SHA-256 of the file knows when it is another."""
    head = sha256((folder / "_duckanon.json").read_bytes()).hexdigest()
    assert verified(folder, capsys, head=[head]) == (0, [])
    rewritten(folder, lambda evidence: evidence.update(information_loss=1.5))
    assert verified(folder, capsys) == (0, [])
    code, (line,) = verified(folder, capsys, head=[head])
    assert (code, line.partition(",")[0]) == (1, f"{head} was expected")


def test_a_file_without_records_is_a_difference_but_for_that_of_the_first_task(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark writes a file of its first partition also where that is empty; of others it writes none."""
    table = records()
    pq.write_table(table, folder / SECOND, store_schema=False)
    pq.ParquetWriter(folder / FIRST, table.schema, store_schema=False).close()
    assert verified(folder, capsys) == (0, [])
    third = folder / "part-00002-a-c000.snappy.parquet"
    pq.ParquetWriter(third, table.schema, store_schema=False).close()
    code, (line,) = verified(folder, capsys)
    assert (code, line.partition(",")[0]) == (1, f"{third.name!r}: it has no record")


def test_words_in_a_parquet_file_are_differences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pq.read_table(folder / SECOND)
    for words in (
        {"note": "Ann has the flu"},
        {SPARK_COLUMNS: '{"type":"struct"}'},
        {SPARK_VERSION: "4 flu"},
    ):
        with pq.ParquetWriter(folder / SECOND, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(words)
        code, (line,) = verified(folder, capsys)
        (name,) = words
        assert (code, f"its footer has {name!r}" in line) == (1, True)


def test_what_spark_writes_of_columns_is_no_difference(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(folder / SECOND)
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in table.column_names
    ]

    def written(fields: list[dict[str, Any]]) -> tuple[int, list[str]]:
        columns = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)
        with pq.ParquetWriter(folder / SECOND, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({SPARK_VERSION: "4.1.4", SPARK_COLUMNS: columns})
        return verified(folder, capsys)

    assert written(fields) == (0, [])
    fields[0]["metadata"] = {"comment": "Ann has the flu"}
    assert written(fields)[0] == 1


def test_bytes_between_the_columns_of_a_parquet_file_are_a_difference(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are put in front of the footer, which any reader finds from the end."""
    data = (folder / SECOND).read_bytes()
    foot = len(data) - 8 - struct.unpack("<i", data[-8:-4])[0]
    (folder / SECOND).write_bytes(data[:foot] + b"Ann has the flu" + data[foot:])
    assert verified(folder, capsys) == (1, [f"{SECOND!r}: it holds 15 bytes that belong to no column"])
