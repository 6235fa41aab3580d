"""Machine code that came with the package: taken where it fits, left alone where anything differs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import pytest

from duckanon.kernels import prepared
from duckanon.kernels.closeness.threshold import logarithm
from duckanon.kernels.exchange.state import update_violations
from tests.e2e.scenes import ROOT, uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator


CODE = "duckanon.kernels.closeness.threshold.logarithm.1.nbc"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder with machine code for this very process, of one kernel, in place of the package's."""
    monkeypatch.setenv(prepared.VARIABLE, str(tmp_path))
    for name in prepared.settings():
        monkeypatch.delenv(name)
    (tmp_path / CODE).write_bytes(b"code")
    files = {prepared.FILES: {CODE: hashlib.sha256(b"code").hexdigest()}}
    tell(tmp_path, {**prepared.here(prepared.processor_of(prepared.system())), **files})
    for cached in (prepared._fits, prepared._whole):
        cached.cache_clear()
    yield tmp_path
    for cached in (prepared._fits, prepared._whole):
        cached.cache_clear()


def tell(folder: Path, made: object) -> None:
    (folder / prepared.MADE_FILE).write_text(json.dumps(made))


def test_machine_code_that_fits(folder: Path) -> None:
    assert prepared.folder() == folder
    assert prepared.has(logarithm.py_func)  # type: ignore[attr-defined]
    assert not prepared.has(update_violations.py_func)  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [None, b"", b"cod", b"Code", b"code "])
def test_machine_code_that_is_not_as_it_was_made(folder: Path, content: bytes | None) -> None:
    """Gone, cut off, changed or longer, by a full disk or a broken copy: the kernel is compiled instead."""
    if content is None:
        (folder / CODE).unlink()
    else:
        (folder / CODE).write_bytes(content)
    assert prepared.folder() == folder
    assert not prepared.has(logarithm.py_func)  # type: ignore[attr-defined]


@pytest.mark.parametrize("files", [None, {}, [], {CODE: 1}, {CODE: None}, {f"{CODE}.too": "0" * 64}])
def test_files_of_which_nothing_is_told(folder: Path, files: object) -> None:
    told = json.loads((folder / prepared.MADE_FILE).read_text())
    tell(folder, {**told, prepared.FILES: files})
    assert not prepared.has(logarithm.py_func)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("named", "other"),
    [
        ("python", "cpython-310"),
        ("sources", "0" * 64),
        ("numba", "0.60.0"),
        ("system", "x86_64-pc-windows-msvc"),
        ("processor", "x86-64-v9"),
        ("more", "than is known"),
    ],
)
def test_machine_code_for_something_else(folder: Path, named: str, other: str) -> None:
    tell(folder, {**json.loads((folder / prepared.MADE_FILE).read_text()), named: other})
    assert prepared.folder() is None
    assert not prepared.has(logarithm.py_func)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("numba", "fits"), [("{}.999", True), ("{}9.0", False)])
def test_the_last_number_of_a_version_of_numba_does_not_matter(
    folder: Path, numba: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = numba.format(prepared.numba_version())
    monkeypatch.setattr(prepared.metadata, "version", lambda _: version)
    assert prepared.folder() == (folder if fits else None)


def test_the_newest_numba_that_pip_installs_fits_the_machine_code_of_a_wheel() -> None:
    """A wheel is built with the newest numba below the bound, so that the bound is the next version."""
    text = (ROOT / "pyproject.toml").read_text()
    (bound,) = re.findall(r'"numba>=[\d.]+,<0\.(\d+)"', text)
    assert prepared.numba_version() == f"0.{int(bound) - 1}"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"made"', "{}", b"\xff\xfe".decode("latin-1")])
def test_a_file_that_tells_nothing(folder: Path, text: str) -> None:
    (folder / prepared.MADE_FILE).write_text(text, encoding="latin-1")
    assert prepared.folder() is None


def test_no_file_and_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun has no such file: it is written last."""
    (folder / prepared.MADE_FILE).unlink()
    assert prepared.folder() is None
    for told in ("", str(folder / "nowhere")):
        monkeypatch.setenv(prepared.VARIABLE, told)
        assert prepared.folder() is None


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_OPT", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_whoever_tells_numba_how_to_compile_gets_code_compiled_so(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    assert prepared.folder() is None


@pytest.mark.parametrize("name", prepared.HARMLESS_SETTINGS)
def test_other_settings_of_numba(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert prepared.folder() == folder


@pytest.mark.skipif(
    prepared.processor_of(prepared.system()) == "generic", reason="no x86-64, of which all models do"
)
def test_a_processor_without_what_the_machine_code_uses(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of an old machine, or of an emulator: an unknown instruction would end the process."""
    known = llvm.get_host_cpu_features()
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {**known, "avx2": False})
    assert prepared.folder() is None


@pytest.mark.skipif(
    not Path("/proc/cpuinfo").exists(), reason="/proc/cpuinfo, which names features, is missing"
)
@pytest.mark.skipif(
    prepared.processor_of(prepared.system()) == "generic", reason="no x86-64, of which all models do"
)
def test_features_are_those_of_the_level_of_processors() -> None:
    """The psABI's own list of x86-64-v3, by the names of Linux: what LLVM says of this machine agrees."""
    linux = {
        "cmov": "cmov", "cx8": "cx8", "fxsr": "fxsr", "mmx": "mmx", "sse": "sse", "sse2": "sse2", "cx16": "cx16",
        "sahf": "lahf_lm", "popcnt": "popcnt", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2",
        "ssse3": "ssse3", "avx": "avx", "avx2": "avx2", "bmi": "bmi1", "bmi2": "bmi2", "f16c": "f16c", "fma": "fma",
        "lzcnt": "abm", "movbe": "movbe", "xsave": "xsave",
    }  # fmt: skip
    assert sorted(linux) == sorted(prepared.FEATURES["x86-64-v3"])
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    has = set(flags.split(":")[1].split())
    assert prepared._able("x86-64-v3") == (set(linux.values()) <= has)


@pytest.mark.parametrize(("named", "current"), [("python", False), ("sources", False), ("system", True)])
def test_what_a_wheel_takes_along(folder: Path, named: str, current: bool) -> None:
    """Of these sources and for this Python, which its name tells; no matter for which system."""
    assert prepared.is_current(folder)
    tell(folder, {**json.loads((folder / prepared.MADE_FILE).read_text()), named: "another"})
    assert prepared.is_current(folder) is current


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    """A slip of the variable, as `DUCKANON_MACHINE_CODE=~`: what is there would be gone."""
    (tmp_path / "letter.txt").write_text("dear")
    done = subprocess.run(
        [sys.executable, "-m", "duckanon.release.prepare"],
        capture_output=True,
        text=True,
        env={**os.environ, prepared.VARIABLE: str(tmp_path)},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1
    assert f"{tmp_path} is no folder of machine code" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_every_source_of_both_rooms_counts(tmp_path: Path) -> None:
    """Its name and its text; nothing else does."""
    told, package = set(), tmp_path
    for file, text in (
        ("kernels/a.py", "x = 1\n"),
        ("kernels/a.py", "x = 2\n"),
        ("kernels/deep/a.py", "x = 2\n"),
        ("literature/a.py", "x = 2\n"),
        ("literature/b.py", ""),
    ):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text(text)
        told.add(sources_of(package))
    (package / "literature" / "b.py").rename(package / "literature" / "c.py")
    told.add(sources_of(package))
    (package / "kernels" / "note.txt").write_text("no source")
    (package / "elsewhere.py").write_text("no kernel")
    assert len({*told, sources_of(package)}) == 6


def sources_of(package: Path) -> str:
    """Give what a copy of the module in another package tells."""
    program = (
        f"import runpy; told = runpy.run_path({prepared.__file__!r})['_sources'].__wrapped__;"
        f"told.__globals__['__file__'] = {str(package / 'kernels' / 'prepared.py')!r}; print(told())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


# By hand: 3 + 1 = 4, doubled 8; 1.5 + 1 = 2.5, doubled 5.
KERNELS = """
from duckanon.kernels.compiled import compiled, inner

@inner
def inside(x):
    return x + 1

@compiled
def outer(x):
    return inside(x) * 2
"""
KEEP = """
import json, sys
from pathlib import Path
import kernels
from duckanon.kernels import machine_code, prepared
folder = Path(sys.argv[1])
assert kernels.outer(3) == 8
assert machine_code.keep(kernels.outer.py_func, folder) == 1
told = {**prepared.here("x86-64-v3"), prepared.FILES: prepared.digests(folder)}
(folder / prepared.MADE_FILE).write_text(json.dumps(told))
"""
CALL = """
import sys
if "without a class" in sys.argv:
    sys.modules["duckanon.kernels.machine_code"] = None  # importing it is an ImportError then
if "other files" in sys.argv:
    from duckanon.kernels import machine_code
    machine_code._file = lambda *_: object()
import kernels
for given in (3, 1.5):
    print(kernels.outer(given))
    stats = kernels.outer.dispatcher.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def call(program: str, place: Path, own: dict[str, str], *arguments: str) -> list[str]:
    """Give what a process prints that has the kernels of a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{place}", **own}
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(
    prepared.processor_of(prepared.system()) == "generic", reason="no x86-64, of which all models do"
)
def test_another_processor_takes_what_was_kept_and_compiles_what_was_not(tmp_path: Path) -> None:
    """It is made for processors of one level, and taken by this one, for which its name is another."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (code := tmp_path / "code").mkdir()
    made_for: dict[str, Any] = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    call(KEEP, tmp_path, {**uncompiled(tmp_path / "one"), **made_for}, str(code))
    taking = {**uncompiled(tmp_path / "other"), prepared.VARIABLE: str(code)}
    # Numba's cache has no part in the first call; numbers of another type are compiled.
    assert call(CALL, tmp_path, taking) == ["8", "1 0", "5.0", "1 1"]
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "other").rglob("*.nbc"))
    assert kept == ["kernels.inside", "kernels.outer"]
    assert call(CALL, tmp_path, taking) == ["8", "1 0", "5.0", "2 0"]
    # Without: all is compiled.
    everything = ["8", "0 1", "5.0", "0 2"]
    assert call(CALL, tmp_path, uncompiled(tmp_path / "third")) == everything
    # So it is where a file was cut off.
    (file,) = code.glob("*.nbc")
    file.write_bytes(file.read_bytes()[:-100])
    cut_off = {**uncompiled(tmp_path / "fourth"), prepared.VARIABLE: str(code)}
    assert call(CALL, tmp_path, cut_off) == everything


@pytest.mark.sampled
@pytest.mark.skipif(
    prepared.processor_of(prepared.system()) == "generic", reason="no x86-64, of which all models do"
)
@pytest.mark.parametrize("numba", ["without a class", "other files"])
def test_where_numba_has_other_private_parts_kernels_are_compiled(tmp_path: Path, numba: str) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (code := tmp_path / "code").mkdir()
    made_for = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    call(KEEP, tmp_path, {**uncompiled(tmp_path / "one"), **made_for}, str(code))
    taking = {**uncompiled(tmp_path / "other"), prepared.VARIABLE: str(code)}
    assert call(CALL, tmp_path, taking, numba) == ["8", "0 1", "5.0", "0 2"]
