"""The templates that people copy do what they say: their commands run in a new folder and a new environment.

Not run: what changes this machine (`useradd` of the Dockerfile), what needs a network of its own (the base image, the
channel of conda, the runner of GitHub), and the waiting of timers.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.scenes import ROOT

TEMPLATES = ROOT / "examples" / "templates"
NIGHTLY = TEMPLATES / "nightly"
PATIENTS = ROOT / "examples" / "dbt" / "seeds" / "patients.csv"
TOOLS = Path(os.environ.get("DUCKANON_TEMPLATES", ROOT / ".venv" / "templates")) / "bin"
"""Programs of an environment that `.ci/run` makes: pre-commit, hadolint, and Python with yaml and rattler-build."""


def tool(name: str) -> str:
    if not (TOOLS / name).exists():
        pytest.skip(
            f"{name} is missing in {TOOLS}: see .ci/run, or name an environment in DUCKANON_TEMPLATES"
        )
    return str(TOOLS / name)


def asked(program: str, file: str) -> Any:
    """What Python of the tools says of a template."""
    code = f"import json, sys; {program}"
    done = subprocess.run(
        [tool("python"), "-c", code, str(TEMPLATES / file)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def yaml(file: str) -> Any:
    return asked("import yaml; print(json.dumps({str(k): v for k, v in yaml.safe_load(open(sys.argv[1])).items()}))", file)  # fmt: skip


def desk(folder: Path) -> Path:
    """A folder with the patients, the policy, and as released.csv the patients without their ids, no release."""
    folder.mkdir(exist_ok=True)
    shutil.copy(PATIENTS, folder / "patients.csv")
    shutil.copy(TEMPLATES / "policy.toml", folder)
    duckdb.sql(
        f"COPY (SELECT * EXCLUDE (patient_id) FROM read_csv('{PATIENTS}', all_varchar = true)) "
        f"TO '{folder / 'released.csv'}'"
    )
    return folder


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", command], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fresh environment in which `pip install duckanon` installs a wheel of this checkout."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True, timeout=300)
    (wheel,) = place.glob("*.whl")
    (place / "constraint.txt").write_text(f"duckanon @ {wheel.as_uri()}\n")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, timeout=300)
    return {
        "PATH": f"{place / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONSTRAINT": str(place / "constraint.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": "",
    }


@pytest.mark.slow
def test_the_image_installs_and_its_command_releases_and_the_action_judges(
    installed: dict[str, str], tmp_path: Path
) -> None:
    """The steps of the Dockerfile and of the action, in their order, in one environment."""
    folder, lines = desk(tmp_path / "data"), (TEMPLATES / "Dockerfile").read_text().splitlines()
    known = ["--ignore", "DL3013", "--ignore", "DL3066"]  # the version is the reader's; a user by number
    assert (
        subprocess.run([tool("hadolint"), *known, str(TEMPLATES / "Dockerfile")], check=False).returncode == 0
    )
    steps = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]
    assert [step.split()[0] for step in steps] == ["pip", "useradd"]
    done = shell(steps[0], folder, **installed)
    assert done.returncode == 0, done.stderr
    (program,) = (json.loads(line.partition(" ")[2]) for line in lines if line.startswith("ENTRYPOINT"))
    (default,) = (json.loads(line.partition(" ")[2]) for line in lines if line.startswith("CMD"))
    assert "Usage" in shell(shlex.join([*program, *default]), folder, **installed).stdout

    steps = [step["run"] for step in yaml("github-action.yml")["jobs"]["audit"]["steps"] if "run" in step]
    assert len(steps) == 2
    assert shell(steps[0], folder, **installed).returncode == 0
    judged = shell(steps[1], folder, **installed)
    assert (judged.returncode, (folder / "audit.sarif").exists()) == (1, True), judged.stderr

    page = (TEMPLATES / "README.md").read_text()
    (given,) = re.findall(r"docker run .* duckanon (.*)", page)
    made = shell(f"{shlex.join(program)} {given}".replace("released.csv", "new.csv"), folder, **installed)
    assert made.returncode == 0, made.stderr
    (folder / "new.csv").replace(folder / "released.csv")
    assert shell(steps[1], folder, **installed).returncode == 0


@pytest.mark.slow
def test_the_hook_refuses_a_commit_that_violates(installed: dict[str, str], tmp_path: Path) -> None:
    folder = desk(tmp_path / "data")
    shutil.copy(TEMPLATES / "pre-commit-config.yaml", folder / ".pre-commit-config.yaml")
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    who |= {
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
    }
    environment = {**installed, **who, "PATH": f"{TOOLS}{os.pathsep}{installed['PATH']}"}
    tool("pre-commit")
    done = shell("git init -q . && pre-commit install && git add .", folder, **environment)
    assert done.returncode == 0, done.stderr
    refused = shell("git commit -m 'the patients as they are'", folder, **environment)
    assert refused.returncode == 1
    assert "audit of released.csv" in refused.stderr + refused.stdout
    assert "k_anonymity" in refused.stderr + refused.stdout
    duckdb.sql(
        "COPY (SELECT 40 AS age, '476**' AS zip, i % 5 AS charge, 'flu' AS diagnosis FROM range(60) AS r(i)) "
        f"TO '{folder / 'released.csv'}'"
    )
    taken = shell("git add . && git commit -m 'a release'", folder, **environment)
    assert taken.returncode == 0, taken.stdout + taken.stderr


@pytest.mark.slow
def test_the_recipe_names_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    program = "from rattler_build import Stage0Recipe as R; print(json.dumps(R.from_file(sys.argv[1]).render()[0].recipe.to_dict()))"
    recipe = asked(program, "recipe.yaml")
    assert (recipe["package"]["name"], recipe["package"]["version"]) == (project["name"], project["version"])
    needed = {re.sub(r"^duckdb>", "python-duckdb>", need) for need in project["dependencies"]}
    needed.add(f"python{project['requires-python']}")
    assert {need.replace(" ", "") for need in recipe["requirements"]["run"]} == needed
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {function}" for name, function in project["scripts"].items()
    ]


@pytest.mark.slow
def test_a_night_releases_and_a_failing_night_keeps_the_file(tmp_path: Path) -> None:
    """The command of the service, then the line of cron on a source that is gone."""
    program = tmp_path / "duckanon"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m duckanon "$@"\n')
    program.chmod(0o755)
    shutil.copy(NIGHTLY / "refresh.sql", tmp_path)
    options = "identifiers = (patient_id), quasi_identifiers = (age, zip), insensitive = *, k = 5"
    script = (
        f"CREATE TABLE patients AS FROM read_csv('{PATIENTS}');"
        f"CREATE ANONYMIZED VIEW patients_anon AS FROM patients WITH ({options})"
    )
    made = shell(f'./duckanon sql "{script}" --database hospital.duckdb', tmp_path)
    assert made.returncode == 0, made.stderr
    service = (NIGHTLY / "duckanon.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", service, re.MULTILINE)
    (line,) = [text for text in (NIGHTLY / "crontab").read_text().splitlines() if not text.startswith("#")]
    for _ in range(2):
        night = shell(command.replace("/usr/local/bin", str(tmp_path)), tmp_path)
        assert night.returncode == 0, night.stderr
    file = tmp_path / "released.parquet"
    assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall() == [(120,)]
    last = file.read_bytes()
    shell('./duckanon sql "DROP TABLE patients" --database hospital.duckdb', tmp_path)
    assert line.split()[:5] == ["30", "2", "*", "*", "*"]
    words = (
        line.split(maxsplit=5)[5]
        .replace("/usr/local/bin", str(tmp_path))
        .replace("/srv/duckanon", str(tmp_path))
    )
    failed = shell(words, tmp_path)
    assert failed.returncode == 2
    assert "patients" in failed.stderr
    assert file.read_bytes() == last


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing")
    for name in ("duckanon.service", "duckanon.timer"):
        unit = (NIGHTLY / name).read_text()
        (tmp_path / name).write_text(
            re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.MULTILINE)
        )
    done = shell("systemd-analyze verify duckanon.service duckanon.timer", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (moment,) = re.findall(r"^OnCalendar=(.*)$", (NIGHTLY / "duckanon.timer").read_text(), re.MULTILINE)
    assert "Next elapse" in shell(f"systemd-analyze calendar '{moment}'", tmp_path).stdout


def test_the_page_lists_every_template() -> None:
    page = (TEMPLATES / "README.md").read_text()
    named = {target for target in re.findall(r"\]\(([^)]+)\)", page) if not target.startswith("..")}
    there = {path.name for path in TEMPLATES.iterdir()} - {"README.md"}
    assert {target.partition("/")[0] for target in named} == there
