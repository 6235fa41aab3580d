"""The machine code that comes with the package: releases compile nothing, and a wheel takes it along."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from duckanon.kernels import prepared
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not prepared.is_current(prepared.FOLDER),
        reason="machine code is missing or of other sources: python -m duckanon.release.prepare",
    ),
]

FIRST_RELEASE_MAX_SECONDS = 5
"""CPU time of a process that starts from a wheel, makes a release with t, and ends."""

PROGRAM = """
import sys, warnings
from numba.core import event
import duckanon

class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("duckanon."):
            print(f"{sys.argv[1]}: {function.__module__}.{function.__name__}")
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
warnings.simplefilter("ignore", duckanon.DuckanonWarning)
with duckanon.connect() as con:
    con.execute(sys.argv[2])
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM p WITH ({sys.argv[3]}, insensitive = *)")
    print(con.execute("SELECT count(*) > 100 FROM v").fetchone()[0])
"""
TABLE = """CREATE TABLE p AS SELECT hash(i) % 1000 AS a, hash(i + 1e6::BIGINT) % 1000 / 7 AS b,
'w' || hash(i + 2e6::BIGINT) % 20 AS w, hash(i + 3e6::BIGINT) % 9 AS s, 'x' || hash(i + 4e6::BIGINT) % 6 AS u,
hash(i + 5e6::BIGINT) % 1000 AS pay, i // 2 AS who FROM range({n}) r(i);
CREATE TABLE tree AS FROM (VALUES ('x0', 'y0', '*'), ('x1', 'y0', '*'), ('x2', 'y1', '*'), ('x3', 'y1', '*'),
('x4', 'y1', '*'), ('x5', 'y2', '*')) t(u, y, root);
CREATE TABLE words AS SELECT 'w' || i AS w, 'v' || i % 3 AS v, '*' AS root FROM range(20) r(i)"""
T = "quasi_identifiers = (a, b, w), sensitive = (s, u), k = 3, t = 0.35, distance = {u: 'equal'}"
TREE = "distance = {u: 'hierarchical'}, hierarchies = {u: 'tree'}"
RELEASES = {
    "few": (350, "quasi_identifiers = (a, b), k = 3, effort = 'best'"),
    "k": (9000, "quasi_identifiers = (a, b, w), k = 3"),
    "many": (60_000, "quasi_identifiers = (a, b, w), k = 5, effort = 'fast'"),
    "one column": (9000, "quasi_identifiers = (a), k = 3"),
    "not refined": (9000, f"{T}, refine = false"),
    "t": (9000, T),
    "t, few": (500, T),
    "t, best": (500, T.replace("k = 3", "k = 3, effort = 'best'")),
    "tree": (9000, f"quasi_identifiers = (a, b), sensitive = u, k = 3, t = 0.3, {TREE}"),
    "l": (9000, "quasi_identifiers = (a, b, w), sensitive = s, k = 3, l = 3"),
    "entropy": (9000, "quasi_identifiers = (a, w), sensitive = s, k = 3, l = 3.5, l_diversity = 'entropy'"),
    "recursive": (
        9000,
        "quasi_identifiers = (a, w), sensitive = s, k = 3, l = 2, l_diversity = 'recursive', c = 2",
    ),
    "share": (
        9000,
        "quasi_identifiers = (a), sensitive = s, k = 3, l = 1, l_diversity = 'recursive', c = 0.5",
    ),
    "suppressed": (9000, f"{T}, suppression_limit = 0.1"),
    "subjects": (9000, "quasi_identifiers = (a, b), sensitive = s, subject = who, k = 3, t = 0.4"),
    "p percent": (9000, "quasi_identifiers = (a, b), sensitive = pay, k = 3, p_percent = 20"),
    "levels": (
        9000,
        "quasi_identifiers = (w), sensitive = s, k = 3, t = 0.4, method = 'full_domain', hierarchies = {w: 'words'}",
    ),
}


def release(named: str, n: int, policy: str, cache: Path, site: Path = ROOT) -> list[str]:
    """Give what a process prints that makes a release, with an empty compiler cache."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, named, TABLE.format(n=n), policy],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(site)},
        cwd=cache.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("named", list(RELEASES))
def test_a_release_compiles_nothing(named: str, tmp_path: Path) -> None:
    assert release(named, *RELEASES[named], tmp_path / "cache") == ["True"]
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.mark.parametrize("method", ["steered", "castle"])
def test_a_stream_compiles_nothing(method: str, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(
        "age,pay\n" + "".join(f"{i % 50},{i * 7 % 90}\n" for i in range(500))
    )
    options = ["--qi", "age", "--qi", "pay", "-k", "3", "--delay", "20", "--method", method]
    subprocess.run(
        [sys.executable, "-m", "duckanon", "stream", "visits.csv", "out.csv", *options],
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    assert len((tmp_path / "out.csv").read_text().splitlines()) > 400
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of what a wheel is built from."""
    copied = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copied / name)
    for name in ("duckanon", "sql", "fixtures"):
        shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def wheel(checkout: Path, into: Path) -> tuple[Path, str]:
    """Build a wheel, and give what was told meanwhile."""
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(into), str(checkout)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (made,) = into.glob("*.whl")
    return made, built.stdout + built.stderr


def test_a_wheel_takes_machine_code_along_and_is_for_one_python_and_system(
    checkout: Path, tmp_path: Path
) -> None:
    made, _ = wheel(checkout, tmp_path / "dist")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert f"-{python}-{python}" in made.name
    assert not made.name.endswith("-any.whl")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    code = {path.name for path in (tmp_path / "site" / "duckanon" / "machine_code").iterdir()}
    assert code == {path.name for path in prepared.FOLDER.iterdir()}
    # As installed, away from the checkout.
    n, policy = RELEASES["t, few"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert release("wheel", n, policy, tmp_path / "cache", tmp_path / "site") == ["True"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < FIRST_RELEASE_MAX_SECONDS
    assert not list(tmp_path.rglob("cache/**/*.nb?"))


def test_a_wheel_leaves_machine_code_of_other_sources_out(checkout: Path, tmp_path: Path) -> None:
    """A kernel was changed since: what the wheel would run is not what is written in it."""
    changed = checkout / "duckanon" / "kernels" / "loss.py"
    text = changed.read_text()
    changed.write_text(text + "\n")
    try:
        made, told = wheel(checkout, tmp_path)
    finally:
        changed.write_text(text)
    assert made.name.endswith("-py3-none-any.whl")
    assert "of other sources or for another Python" in told
    assert not [name for name in zipfile.ZipFile(made).namelist() if "machine_code/" in name]
