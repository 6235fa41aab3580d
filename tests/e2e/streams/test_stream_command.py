"""The command ``stream`` in real processes, with real pipes: whole classes come out, whatever ends it."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import duckanon
from duckanon.cli import stream as stream_command
from duckanon.cli.main import main
from duckanon.streams import report as stream_report
from tests.e2e.scenes import ROOT, command, settled
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASKED = ("--qi", "age", "-k", "3", "--delay", "20", "--class-id")
VISITS = "name,age,zip,ill\na,31,01,flu\nb,60,02,acne\nc,35,01,cold\nd,64,02,\n"
# By hand, k = 2: 31 and 35 are nearest, 60 and 64; means 33 and 62; in a class by what else is told, NULL last.
RELEASED = "age,zip,ill\n33,01,cold\n33,01,flu\n62,02,acne\n62,02,\n"
SMALL = ("--qi", "age,zip", "-k", "2", "--delay", "10", "--identifiers", "name")


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Give what was said without the warning of a short delay."""
    return "".join(
        line for line in settled(done.stderr).splitlines(keepends=True) if not line.startswith("warning:")
    )


def piped(text: bytes, *arguments: object, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command with a pipe at its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "duckanon", "stream", *map(str, arguments)],
        input=text, capture_output=True, timeout=120, cwd=ROOT, check=False, **more,
    )  # fmt: skip


def started(*arguments: object, **more: Any) -> subprocess.Popen[bytes]:
    """Start the command, with pipes at all its ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(
        [sys.executable, "-m", "duckanon", "stream", *map(str, arguments)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes,
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Give exit code and stderr, where the process ends by itself."""
    if process.stdin is not None:
        process.stdin.close()
        process.stdin = None
    _, errors = process.communicate(timeout=60)
    return process.returncode, settled(errors.decode())


def rows(first: int, last: int) -> bytes:
    """Give lines of tuples."""
    return b"".join(b"%d,x%d\n" % ((i * 37) % 80, i) for i in range(first, last))


def until(happens: Callable[[], object]) -> None:
    """Wait for something, a minute at most."""
    for _ in range(1200):
        if happens():
            return
        time.sleep(0.05)
    raise TimeoutError


def left_alone(file: Path) -> bool:
    """Tell whether no process has a file open: what guards an output outlives the command by a moment."""
    if not Path("/proc/self/fd").is_dir():
        time.sleep(1)
        return True
    return not any(reaches(link, file) for link in Path("/proc").glob("[0-9]*/fd/*"))


def reaches(link: Path, file: Path) -> bool:
    """Tell whether an open file of a process, which may be gone meanwhile, is this one."""
    try:
        return link.samefile(file)
    except OSError:
        return False


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def classes(file: Path, k: int = 3) -> int:
    """Count the classes of a CSV; each has k tuples, which stand together and share their quasi-identifier."""
    data = file.read_bytes()
    assert data.endswith(b"\n") or not data
    found = list(csv.DictReader(data.decode().splitlines()))
    for place in range(0, len(found), k):
        assert len({(row["age"], row["class_id"]) for row in found[place : place + k]}) == 1
    assert set(Counter(row["class_id"] for row in found).values()) <= {k}
    return len(found) // k


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    file = tmp_path / "visits.csv"
    file.write_text(VISITS)
    return file


def test_a_file_becomes_a_file_with_its_evidence_beside_it(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = command("stream", visits, out, *SMALL)
    assert (done.returncode, done.stdout) == (0, "")
    assert told(done) == "4 tuples read: 4 written, 0 dropped, 0 held\n"
    assert out.read_text() == RELEASED
    found = json.loads((tmp_path / "out.csv.json").read_text())
    assert (found["read"], found["written"], found["classes"], found["k"]) == (4, 4, 2, 2)
    assert found["audit"]["measures"][0] | {"classes": 2, "records": 0} == {
        "measure": "k_anonymity", "attribute": None, "threshold": 2.0, "value": 2.0, "classes": 2,
        "violations": 0, "records": 0, "passed": True,
    }  # fmt: skip
    # What the file must have is written down above: so is its hash, whatever reads it.
    assert found["fingerprint"] == hashlib.sha256(RELEASED.encode()).hexdigest()


@pytest.mark.slow
def test_pipes_are_the_usual_ends_and_are_csv() -> None:
    done = piped(VISITS.encode(), *SMALL)
    assert (done.returncode, done.stdout.decode()) == (0, RELEASED)
    again = piped(VISITS.encode(), "-", "-", *SMALL)
    assert again.stdout == done.stdout


@pytest.mark.slow
def test_report_is_kept_of_pipes_where_it_is_asked_for(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    assert piped(VISITS.encode(), *SMALL, "--report", report).returncode == 0
    found = json.loads(report.read_text())
    assert (found["written"], found["fingerprint"], found["audit"]) == (4, None, None)
    done = piped(VISITS.encode(), *SMALL, "--report", report)
    assert done.returncode == 2
    assert b"a report never overwrites" in done.stderr


@pytest.mark.slow
def test_json_lines(tmp_path: Path) -> None:
    source, out = tmp_path / "v.jsonl", tmp_path / "v.ndjson"
    source.write_text(
        '{"age": 31, "zip": "01", "ill": "flu"}\n\n{"age": 60, "zip": "02", "ill": "say \\"a\\""}\n'
        '{"age": 35, "zip": "01", "ill": "cold"}\n{"zip": "02", "age": 64}\n'
    )
    done = command("stream", source, out, "--qi", "age,zip", "-k", "2", "--delay", "10")
    assert done.returncode == 0, done.stderr
    assert list(map(json.loads, out.read_text().splitlines())) == [
        {"age": 33, "zip": "01", "ill": "cold"},
        {"age": 33, "zip": "01", "ill": "flu"},
        {"age": 62, "zip": "02", "ill": 'say "a"'},
        {"age": 62, "zip": "02", "ill": None},
    ]
    assert json.loads((tmp_path / "v.ndjson.json").read_text())["audit"]["passed"] is True
    back = tmp_path / "v.csv"
    assert command("stream", out, back, "--qi", "age,zip", "-k", "2", "--delay", "10").returncode == 0
    assert back.read_text() == 'age,zip,ill\n33,01,cold\n33,01,flu\n62,02,"say ""a"""\n62,02,\n'
    done = piped(source.read_bytes(), "--format", "jsonl", "--qi", "age,zip", "-k", "2", "--delay", "10")
    assert done.stdout.decode() == out.read_text()


def test_it_writes_what_the_python_api_writes(tmp_path: Path) -> None:
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(b"age,note\n" + rows(0, 2000))
    weights = ("--weights", "age=2", "--scale", "age=0:120", "--order-weight", "0.02", "--cluster", "grow")
    done = command("stream", source, out, *ASKED, *weights)
    assert done.returncode == 0, done.stderr
    table = pa.table({"age": [(i * 37) % 80 for i in range(2000)], "note": [f"x{i}" for i in range(2000)]})
    stream = duckanon.anonymize_stream(
        table.to_batches(), ["age"], k=3, delay=20, order_weight=0.02, weights={"age": 2},
        scale={"age": (0, 120)}, cluster="grow", class_id=True,
    )  # fmt: skip
    expected = [row for batch in stream for row in batch.to_pylist()]
    with out.open(newline="") as file:
        found = [
            {"age": int(row["age"]), "note": row["note"], "class_id": int(row["class_id"])}
            for row in csv.DictReader(file)
        ]
    assert found == expected
    assert json.loads((tmp_path / "o.csv.json").read_text())["policy_hash"] == stream.report.policy_hash


@pytest.mark.slow
def test_the_cut_of_the_input_changes_nothing(tmp_path: Path) -> None:
    data = b'age,note\n31,"a\nb"\n60,"c,""d"""\n35,\n64,5" pipe\n' + rows(0, 60)
    whole = piped(data, *ASKED)
    process = started(*ASKED)
    assert process.stdin is not None
    for place in range(0, len(data), 7):
        process.stdin.write(data[place : place + 7])
        process.stdin.flush()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, whole.stdout)
    assert b'"a\nb"' in out
    assert b'"c,""d"""' in out
    assert b'"5"" pipe"' in out


def test_tuples_leave_when_their_delay_is_over_however_few_came() -> None:
    process = started(*ASKED)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"age,note\n" + rows(0, 21))
    process.stdin.flush()
    assert process.stdout.readline() == b"age,note,class_id\n"
    assert len({process.stdout.readline().split(b",")[0] for _ in range(3)}) == 1
    process.stdin.write(rows(21, 22))
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_types_are_those_of_the_first_tuples(tmp_path: Path) -> None:
    source = tmp_path / "s.csv"
    source.write_text("when,code,rate,seen\n" + "2024-01-01,007,1.5,true\n2024-01-03,007,2.5,true\n" * 2)
    done = command(
        "stream", source, tmp_path / "o.csv", "--qi", "when,code,rate,seen", "-k", "4", "--delay", "3"
    )
    assert done.returncode == 0, done.stderr
    # By hand: the mean of two days, and of 1.5 and 2.5; the texts are all one.
    assert (tmp_path / "o.csv").read_text().splitlines() == ["when,code,rate,seen"] + [
        "2024-01-02,007,2.0,true"
    ] * 4


def test_a_scale_of_dates_and_columns_with_odd_names(tmp_path: Path) -> None:
    source = tmp_path / "s.csv"
    source.write_text('"a,b","say ""x""",when\n1,p,2024-01-01\n3,q,2024-01-03\n')
    done = command(
        "stream", source, tmp_path / "o.csv", "--qi", '"a,b",when', "-k", "2", "--delay", "1",
        "--scale", '"a,b"=0:10,when=2024-01-01:2024-12-31', "--recode", '"a,b"=range',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o.csv").read_text() == (
        '"a,b","say ""x""",when\n1 to 3,p,2024-01-02\n1 to 3,q,2024-01-02\n'
    )


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_no_name_of_a_column_is_one_that_the_command_needs(tmp_path: Path, form: str) -> None:
    """By hand: the mean of 1 and 3 is 2."""
    source, out = tmp_path / f"s.{form}", tmp_path / "o.csv"
    names = ["duckanon fits", "line", "place", "duckanon_tuples"]
    rows = [dict.fromkeys(names, value) for value in (1, 3)]
    csv_text = "".join(",".join(map(str, row)) + "\n" for row in (names, *(row.values() for row in rows)))
    source.write_text(csv_text if form == "csv" else "".join(json.dumps(row) + "\n" for row in rows))
    done = command("stream", source, out, "--qi", ",".join(names), "-k", "2", "--delay", "5")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == ",".join(names) + "\n" + "2,2,2,2\n" * 2


@pytest.mark.parametrize(
    ("text", "written", "held"),
    [("age\n", 0, 0), ("age\n1\n", 0, 1), ("age\n1\n3\n", 2, 0), ("age\n1\n3\n8\n", 2, 1), ("age", 0, 0)],
)
def test_few_tuples(tmp_path: Path, text: str, written: int, held: int) -> None:
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_text(text)
    done = command("stream", source, out, "--qi", "age", "-k", "2", "--delay", "10", "--recode", "age=mean")
    assert done.returncode == 0, done.stderr
    assert told(done) == f"{written + held} tuples read: {written} written, 0 dropped, {held} held\n"
    assert out.read_text() == "age\n" + "2\n" * written
    assert json.loads((tmp_path / "o.csv.json").read_text())["held"] == held


WRONG: dict[str, tuple[str | bytes, tuple[str, ...], str]] = {
    "fields": ("age,ill\n1,a\n2\n", (), "line 3: it has 1 fields, not 2 as the header"),
    "fields behind a text of two lines": (
        'age,ill\n1,"a\nb"\n\n2,c,d\n',
        (),
        "line 5: it has 3 fields, not 2",
    ),
    "quote": ('age,ill\n1,a\n2,"b\n3,c\n', (), "line 3: a quote is opened and never closed"),
    "behind a quote": ('age,ill\n1,"a"b\n', (), "line 2: text follows the end of a quoted field"),
    "UTF-8": (b"age,ill\n1,a\n2,\xff\n", (), "line 3: this is no UTF-8"),
    "return": ("age,ill\n1,a\rb\n", (), "line 2: a carriage return is not at its end"),
    "twice": ("age,Age\n1,2\n", (), "line 1: the header has the column 'Age' twice"),
    "nameless": ("age,\n1,2\n", (), "line 1: column 2 has no name"),
    "NUL": ("age,i\0l\n1,2\n", (), "column 'i\\x00l': its name has a NUL character"),
    "empty": ("", (), "the input is empty"),
    "column": (
        "ages\n1\n",
        (),
        "--qi names 'age', which the source does not have, did you mean 'ages'?",
    ),
    "NULL": (
        "age,x\n1,a\n,b\n",
        ("--nulls", "error"),
        "quasi-identifier 'age' is NULL in tuple 2, and --nulls error",
    ),
    "NaN": ("age\n1.5\nnan\n", (), "quasi-identifier 'age' is NaN or infinite in tuple 2"),
    "infinity": ("age\ninf\n2.5\n", (), "quasi-identifier 'age' is NaN or infinite in tuple 1"),
    "subject": ("age,who\n1,a\n2,\n", ("--subject", "who"), "subject (who) is NULL in tuple 2"),
    "delay": ("age\n1\n", ("--delay", "0"), "--delay 0: use a whole number of at least 1 (k - 1"),
    "order weight": ("age\n1\n", ("--order-weight", "-1"), "--order-weight -1.0: use a number of at least 0"),
    "scale": ("age\n1\n", ("--scale", "age=5"), "--scale takes column=low:high pairs, not age=5"),
    "no pairs": ("age\n1\n", ("--recode", "mean"), "--recode takes column=value pairs, not 'mean'"),
    "text": ("age\nx\n", ("--scale", "age=0:5"), "--scale of 'age': its values are text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_an_error_that_says_where(tmp_path: Path, name: str) -> None:
    text, options, message = WRONG[name]
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    known = () if "--delay" in options else ("--delay", "10")
    done = command("stream", source, out, "--qi", "age", "-k", "2", *known, *options)
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o.csv.json").exists()
    assert not out.exists() or len(out.read_text().splitlines()) == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x,y", "line 33: 'x' in column 'age' is no BIGINT, which the first tuples were"),
        ("1.5,y", "line 33: '1.5' in column 'age' is no BIGINT"),
        ("007,y", "line 33: '007' in column 'age' is no BIGINT"),
    ],
)
def test_a_later_value_of_another_type_is_an_error(line: str, message: str) -> None:
    """From a pipe the types are those of the first delay + 1 = 21 tuples."""
    data = b"age,note\n" + rows(0, 31) + f"{line}\n".encode() + rows(0, 5)
    done = piped(data, *ASKED)
    assert done.returncode == 2
    assert message in done.stderr.decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"age": 1}\n{"age": \n', "line 2: this is no JSON"),
        ('{"age": 1}\n\n[1]\n', "line 3: this is no JSON object"),
        ('{"age": [1]}\n', "column 'age' holds lists or objects"),
        ("\n", "the input is empty"),
        ("{}\n", "line 1: an object without keys"),
    ],
)
def test_bad_json_is_an_error_that_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    source = tmp_path / "s.jsonl"
    source.write_text(text)
    done = command("stream", source, tmp_path / "o.jsonl", "--qi", "age", "-k", "2", "--delay", "10")
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr


@pytest.mark.slow
def test_later_json_of_another_kind() -> None:
    lines = [f'{{"age": {i}, "ill": "a"}}' for i in range(40)]
    for wrong, message in (
        ('{"age": "x"}', "line 41: 'x' in column 'age' is no BIGINT"),
        ('{"age": 1, "new": 2}', "line 41: a key that no tuple had at first"),
    ):
        done = piped("\n".join([*lines, wrong]).encode(), *ASKED[:-1], "--format", "jsonl")
        assert done.returncode == 2
        assert message in done.stderr.decode()


def test_an_output_is_new_and_not_the_input(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    done = command("stream", visits, out, *SMALL)
    assert (done.returncode, out.read_text()) == (2, "mine")
    assert "exists and a stream never overwrites" in done.stderr
    link = tmp_path / "link.csv"
    link.symlink_to(visits)
    for target in (visits, link):
        done = command("stream", visits, target, *SMALL)
        assert (done.returncode, visits.read_text()) == (2, VISITS)
        assert "the output is the input" in done.stderr
    with visits.open("rb") as read, visits.open("ab") as written:
        process = started(*SMALL, stdin=read, stdout=written)
        assert "the output is the input" in ended(process)[1]
    assert visits.read_text() == VISITS


def test_times_and_large_numbers_are_written_as_they_were_read(tmp_path: Path) -> None:
    """Source: by hand, k = 2: the mean of two times a day apart, in UTC; other columns are as they are."""
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_text(
        "at,seen,big,at_last\n2024-01-01T12:00:00+02,2024-01-01 10:00:00,123456789012345678901,2024-01-01T00:00:00Z\n"
        "2024-01-02T12:00:00+02,2024-01-02 10:00:00,123456789012345678903,2024-01-02T00:00:00Z\n"
    )
    done = command("stream", source, out, "--qi", "at,seen,big", "-k", "2", "--delay", "10", TZ="Asia/Tokyo")
    assert done.returncode == 0, done.stderr
    same = "2024-01-01 22:00:00+00,2024-01-01 22:00:00,123456789012345678902"
    assert out.read_text() == (
        f"at,seen,big,at_last\n{same},2024-01-01T00:00:00Z\n{same},2024-01-02T00:00:00Z\n"
    )


def test_a_device_takes_what_is_written_and_stays(visits: Path) -> None:
    done = command("stream", visits, "/dev/null", *SMALL)
    assert (done.returncode, told(done)) == (0, "4 tuples read: 4 written, 0 dropped, 0 held\n")
    done = command("stream", visits, "/dev/null", "--qi", "aeg", "-k", "2", "--delay", "10")
    assert done.returncode == 2
    assert not os.path.isfile("/dev/null")


def test_what_is_asked_wrongly(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    for words, message in (
        (("-k", "2"), "--qi is missing"),
        (("--qi", "age", "-k", "2", "-k", "3"), "-k or --k is given 2 times"),
        (("--qi", "age", "--dellay", "3"), "no option --dellay, did you mean --delay?"),
        (("--qi", "age", "--format", "jsnl"), "unknown format 'jsnl', did you mean 'jsonl'?"),
        (("--qi", "age", "--cluster", "near"), "--cluster near: use nearest | grow"),
        (("--qi", "age", "--weights", "age=1", "--weights", "age=2"), "two values for column 'age'"),
        (("--qi", "age", "--report", out), "--report is the output"),
    ):
        done = command("stream", visits, out, *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert not out.exists()
    done = command("stream", "-", out, "--qi", "age", "--follow")
    assert "--follow waits for more in a file" in done.stderr
    done = command("stream", visits, tmp_path / "o.txt", "--qi", "age")
    assert "give --format" in done.stderr


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[tuple[Path, Path, subprocess.Popen[bytes]]]:
    """A file that is followed, with some classes written."""
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(b"age,note\n" + rows(0, 100))
    process = started(source, out, *ASKED, "--follow", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: size(out) > 300)
    yield source, out, process
    process.kill()
    process.communicate()


def test_a_file_that_grows_is_followed_until_ctrl_c(
    followed: tuple[Path, Path, subprocess.Popen[bytes]],
) -> None:
    source, out, process = followed
    before = size(out)
    with source.open("ab") as more:
        more.write(rows(100, 150) + b"7,half a l")
    until(lambda: size(out) > before)
    process.send_signal(signal.SIGINT)
    code, errors = ended(process)
    assert code == 0
    assert errors.startswith("interrupted: 150 tuples read: ")
    found = json.loads(out.with_name("o.csv.json").read_text())
    assert found["written"] == 3 * classes(out) > 0
    assert found["read"] == 150 == found["written"] + found["dropped"] + found["held"]
    assert b"half" not in out.read_bytes()


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["cut", "replaced", "gone"])
def test_a_followed_file_that_is_cut_or_replaced_is_an_error(
    followed: tuple[Path, Path, subprocess.Popen[bytes]], how: str
) -> None:
    source, out, process = followed
    if how == "cut":
        os.truncate(source, 20)
    else:
        source.rename(source.with_name("old.csv"))
    if how == "replaced":
        source.with_name("new.csv").write_bytes(b"age,note\n" + rows(0, 9))
        source.with_name("new.csv").rename(source)
    code, errors = ended(process)
    assert code == 2
    assert ("was cut while it was followed" if how == "cut" else "is another file than the one") in errors
    assert "100 tuples read: " in errors
    assert classes(out) > 0


def test_ctrl_c_before_the_first_class_leaves_no_file(tmp_path: Path) -> None:
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(b"age,note\n" + rows(0, 7))
    process = started(source, out, *ASKED, "--follow", stdin=subprocess.DEVNULL)
    until(out.exists)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    code, errors = ended(process)
    assert (code, errors) == (0, "interrupted: 7 tuples read: 0 written, 0 dropped, 7 held\n")
    assert not out.exists()


@pytest.mark.sampled
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_whole_classes_and_says_how_many(tmp_path: Path, sent: signal.Signals) -> None:
    out = tmp_path / "o.csv"
    process = started("-", out, *ASKED)
    assert process.stdin is not None
    process.stdin.write(b"age,note\n" + rows(0, 100))
    process.stdin.flush()
    until(lambda: size(out) > 300)
    time.sleep(0.3)
    process.send_signal(sent)
    process.wait(timeout=60)
    code, errors = ended(process)
    written = 3 * classes(out)
    assert code == 2
    assert errors == f"interrupted: 100 tuples read: {written} written, 0 dropped, {100 - written} held\n"
    assert not (tmp_path / "o.csv.json").exists()


def test_a_closed_pipe_ends_it_with_a_message() -> None:
    process = started(*ASKED)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"age,note\n" + rows(0, 100))
    process.stdin.flush()
    assert process.stdout.readline() == b"age,note,class_id\n"
    process.stdout.close()
    process.stdout = None
    process.stdin.write(rows(100, 300))
    code, errors = ended(process)
    assert code == 2
    counted, last = errors.splitlines()
    assert "tuples read: " in counted
    assert last == "error: nobody reads the output any more"


@pytest.mark.slow
def test_a_reader_that_stops_does_not_keep_ctrl_c_from_it(tmp_path: Path) -> None:
    """The pipe is full: what is in it are whole classes, as many as are told."""
    source = tmp_path / "s.csv"
    source.write_bytes(b"age,note\n" + rows(0, 20_000))
    process = started(source, *ASKED, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    file = tmp_path / "o.csv"
    file.write_bytes(first + out)
    assert f" {3 * classes(file)} written, " in settled(errors.decode())
    assert 0 < len(out) < 100_000


@pytest.mark.sampled
@pytest.mark.parametrize("room", [0, 5, 1000, 30_000])
def test_a_full_disk_leaves_whole_classes(tmp_path: Path, room: int) -> None:
    """A limit of the size of files is what a full disk is to a write."""
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(b"age,note\n" + rows(0, 5000))
    code, errors = ended(limited(room, source, out))
    assert code == 2
    assert "error: the output cannot be written: File too large" in errors
    assert size(out) <= room
    assert f"{3 * classes(out)} written, " in errors
    assert room < 1000 or classes(out) > 0


def limited(room: int, source: Path, out: Path | str, **more: Any) -> subprocess.Popen[bytes]:
    """Start it where no file may be larger than so many bytes."""
    program = (
        "import resource, sys; from duckanon.cli.main import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.RLIM_INFINITY)); main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, "stream", str(source), str(out), *ASKED],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
    )  # fmt: skip


def test_a_full_disk_behind_the_shell(tmp_path: Path) -> None:
    """The shell has opened the file, which had a line before."""
    source, out = tmp_path / "s.csv", tmp_path / "o.csv"
    source.write_bytes(b"age,note\n" + rows(0, 5000))
    out.write_text("before\n")
    with out.open("ab") as appended:
        code, errors = ended(limited(30_000, source, "-", stdout=appended))
    assert code == 2
    first, rest = out.read_bytes().split(b"\n", 1)
    assert first == b"before"
    out.write_bytes(rest)
    assert f"{3 * classes(out)} written, " in errors
    assert classes(out) > 0


def test_an_output_that_was_changed_is_a_violation(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit is that of the file, whoever wrote to it: one tuple more is in a class of its own."""

    def changed(given: Any, output: Path, *others: Any) -> Any:
        with output.open("a") as file:
            file.write("99,01,flu\n")
        return of_file(given, output, *others)

    of_file = stream_command.with_evidence_of_file
    monkeypatch.setattr(stream_command, "with_evidence_of_file", changed)
    with pytest.raises(SystemExit) as left:
        main(["stream", str(visits), str(tmp_path / "o.csv"), *SMALL])
    assert left.value.code == 1
    assert "k_anonymity" in capsys.readouterr().err
    assert json.loads((tmp_path / "o.csv.json").read_text())["audit"]["passed"] is False


def test_an_output_that_changes_during_its_audit_has_no_evidence(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hash of bytes that were not audited would say that they passed."""

    def changed(*given: Any, **named: Any) -> Any:
        found = audit(*given, **named)
        with out.open("a") as file:
            file.write("99,01,flu\n")
        return found

    out, audit = tmp_path / "o.csv", stream_report.audit_sql
    monkeypatch.setattr(stream_report, "audit_sql", changed)
    with pytest.raises(SystemExit) as left:
        main(["stream", str(visits), str(out), *SMALL])
    assert left.value.code == 2
    assert "was changed while it was audited" in capsys.readouterr().err
    assert not (tmp_path / "o.csv.json").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_device_without_room() -> None:
    with open("/dev/full", "wb") as full:
        process = started(*SMALL, stdout=full)
        assert process.stdin is not None
        process.stdin.write(VISITS.encode())
        code, errors = ended(process)
    assert code == 2
    assert "error: the output cannot be written: No space left on device" in errors


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_whole_classes(tmp_path: Path) -> None:
    chance = random.Random(20)
    for attempt in range(examples(20, few=5)):
        out = tmp_path / f"o{attempt}.csv"
        process = started("-", out, *ASKED, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        feeder = threading.Thread(target=feed, args=(process,))
        feeder.start()
        until(lambda out=out: size(out) > 300)
        time.sleep(chance.random() / 4)
        process.kill()
        process.wait()
        feeder.join()
        assert process.stdin is not None
        process.stdin = None
        until(lambda out=out: left_alone(out))
        assert classes(out) > 0


TORN = """
import os, signal, stat, sys
from duckanon.cli.main import main

write, sizes = os.write, []

def torn(descriptor, data):
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        sizes.append(len(data))
        if len(sizes) == {nth}:
            write(descriptor, data[: len(data) // 2 + 1])
            os.kill(os.getpid(), signal.SIGKILL)
    return write(descriptor, data)

os.write = torn
main()
"""


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_kill_9_within_a_write_leaves_whole_classes(tmp_path: Path, nth: int, form: str) -> None:
    """The header of a CSV is the first write; batches of records come after one another through a pipe."""
    out = tmp_path / f"o.{form}"
    process = subprocess.Popen(
        [sys.executable, "-c", TORN.format(nth=nth), "stream", "-", str(out), *ASKED],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    feed(process)
    assert process.wait(timeout=60) == -signal.SIGKILL
    until(lambda: left_alone(out))
    lines = out.read_bytes().splitlines()
    records = lines[1:] if form == "csv" else lines
    assert len(records) % 3 == 0
    assert bool(records) == (nth > (2 if form == "csv" else 1))


@pytest.mark.slow
def test_kill_9_while_a_large_file_is_written_leaves_whole_classes(tmp_path: Path) -> None:
    """Most of them come between two writes: tests/streams/test_guard.py has those that come within one."""
    source, chance, killed = tmp_path / "in.csv", random.Random(17), 0
    source.write_bytes(b"age,note\n" + rows(0, 500_000))
    for attempt in range(examples(20, few=8)):
        out = tmp_path / f"o{attempt}.csv"
        process = started(source, out, *ASKED, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(lambda out=out: size(out) > 300)
        time.sleep(chance.random() * 0.6)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        until(lambda out=out: left_alone(out))
        assert classes(out) > 0
        out.unlink()
    assert killed > 1


def feed(process: subprocess.Popen[bytes]) -> None:
    """Write tuples, a few at once, until nobody reads them."""
    assert process.stdin is not None
    try:
        process.stdin.write(b"age,note\n")
        for first in range(0, 10**9, 50):
            process.stdin.write(rows(first, first + 50))
            process.stdin.flush()
            time.sleep(0.001)
    except BrokenPipeError:
        try:
            process.stdin.close()
        except BrokenPipeError:
            return
