"""Compiled templates of the package: taken for the very text that they were made of, else left alone."""

from __future__ import annotations

import hashlib
import marshal
import shutil
from typing import TYPE_CHECKING

import pytest

from duckanon.database import templates
from duckanon.kernels import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "relation.sql.j2:count"
RENDERED = "SELECT count(*) AS records\nFROM t\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("compiled")
    templates.write_compiled(folder)
    return (folder / templates.COMPILED_FILE).read_bytes()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bytes) -> Iterator[Path]:
    """Give a folder with a copy of the SQL files in `sql`, and their compiled templates in `code`."""
    copy = shutil.copytree(templates.folder(), tmp_path / "sql")
    monkeypatch.setattr(templates, "folder", lambda: copy)
    monkeypatch.setenv(prepared.VARIABLE, str(tmp_path / "code"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / templates.COMPILED_FILE).write_bytes(compiled)
    templates._environment.cache_clear()
    yield tmp_path
    templates._environment.cache_clear()


def compiled_now(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the list of templates that Jinja compiles from now on."""
    names: list[str] = []
    compiling = templates._environment().compile

    def compile_template(source: str, name: str, filename: str) -> object:
        names.append(name)
        return compiling(source, name, filename)

    monkeypatch.setattr(templates._environment(), "compile", compile_template)
    return names


def rendered() -> str:
    return templates.render(NAME, relation="t").partition("\n-- returns: records\n")[2]


def test_template_that_is_compiled(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = compiled_now(monkeypatch)
    assert rendered() == RENDERED
    assert not names


def test_changed_text_is_compiled_anew(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = package / "sql" / "relation.sql.j2"
    file.write_text(file.read_text().replace("SELECT count(*) AS records\nFROM {{", "SELECT 7\nFROM {{"))
    names = compiled_now(monkeypatch)
    assert rendered() == "SELECT 7\nFROM t\n"
    assert NAME in names


@pytest.mark.parametrize("broken", ["cut", "changed", "gone", "stranger", "no folder"])
def test_file_that_is_not_as_it_was_made(package: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A full disk, a changed byte, or code under the SHA-256 of another version: each text is compiled."""
    file = package / "code" / templates.COMPILED_FILE
    made = file.read_bytes()
    if broken == "cut":
        file.write_bytes(made[:-1])
    elif broken == "changed":
        file.write_bytes(made[:-1] + bytes([made[-1] ^ 1]))
    elif broken == "gone":
        file.unlink()
    elif broken == "stranger":
        checksum, _ = templates._compiled()[NAME]
        other = marshal.dumps({NAME: (checksum, compile("1 / 0", "x", "exec"))})
        file.write_bytes(hashlib.sha256(other).digest() + other)
    else:
        monkeypatch.chdir(package / "code")
        monkeypatch.setenv(prepared.VARIABLE, "")
    assert templates._compiled() == {}
    names = compiled_now(monkeypatch)
    assert rendered() == RENDERED
    assert names == [NAME]


@pytest.mark.parametrize("what", ["jinja", "filters"])
def test_other_versions_compile_anew(package: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Jinja calls filters of constants when it compiles, so the code depends on the filters, too."""
    assert templates._compiled()
    if what == "jinja":
        monkeypatch.setattr("jinja2.__version__", "0.0")
    else:
        changed = package / "templates.py"
        changed.write_text("changed")
        monkeypatch.setattr(templates, "__file__", str(changed))
    assert templates._compiled() == {}


def test_every_template_is_compiled(package: Path) -> None:
    """Every file, or each of its sections, has code; the text of a file with sections is no template."""
    codes = templates._compiled()
    for file in (package / "sql").rglob("*.sql.j2"):
        name = file.relative_to(package / "sql").as_posix()
        sections = templates.sections_of(file.read_text())
        assert {f"{name}:{section}" for section in sections} <= codes.keys()
        assert (name in codes) is not bool(sections)
