"""The commands of the reference pages run as they are printed, each block in a fresh folder of the files that it names."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import duckanon
from tests.e2e.scenes import ROOT

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("command_line", "evidence", "report", "suggest")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")), 1
    )
]

# Words for values that a reader fills in, and a folder that Spark writes: other tests have both.
ELSEWHERE = ("FINGERPRINT", "verify released ")
ENDLESS = {"tail -n +1 -f": "tail -n +1", " --follow": ""}
"""Commands that wait for more tuples until Ctrl-C, and what ends at the end of the file."""

SCENE = '''
CREATE TABLE patients AS
SELECT
    i AS patient_id, 20 + 10 * (i % 5) AS age, CAST(10100 + i % 2 AS VARCHAR) AS zip,
    i // 10 % 4 AS charge, ['flu', 'cold', 'acne'][1 + i // 10 % 3] AS diagnosis
FROM range(240) AS r(i);
CREATE VIEW my_view AS SELECT age, zip FROM patients;
CREATE ANONYMIZED VIEW patients_anon AS FROM patients
WITH (subject = patient_id, quasi_identifiers = (age, zip), sensitive = (charge, diagnosis), k = 3);
COPY patients TO 'patients.csv';
COPY patients TO 'raw.csv';
COPY patients TO 'patients.parquet';
COPY (SELECT age, zip, diagnosis FROM patients) TO 'march.csv';
COPY (SELECT age, zip, diagnosis FROM patients) TO 'june.csv';
COPY (
    SELECT 'p' || i % 200 AS patient, 'Name ' || i AS name, 20 + 10 * (i % 5) AS age, i % 2 AS zip,
        DATE '2026-01-01' + CAST(i % 28 AS INTEGER) AS day, ['flu', 'cold', 'acne'][1 + i % 3] AS diagnosis,
        i % 60 AS charge
    FROM range(600) AS r(i)
) TO 'visits.csv';
COPY (SELECT 1 AS "last, first", 2 AS zip, 3 AS "x=y", 4 AS "say ""hi""" FROM range(3)) TO 'odd.csv';
'''
RELEASED = """
CREATE TABLE source AS SELECT age, zip, diagnosis FROM 'patients.parquet';
CREATE ANONYMIZED VIEW patients AS FROM source
WITH (quasi_identifiers = (age, zip), sensitive = diagnosis, k = 3);
"""
POLICY = (
    'identifiers = ["patient_id"]\nquasi_identifiers = ["age", "zip"]\n'
    'sensitive = ["charge", "diagnosis"]\nk = 3\n'
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with every file that the pages name."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with duckanon.connect("hospital.duckdb") as con:
            con.run_script(SCENE)
        with duckanon.connect() as con:
            con.run_script(RELEASED)
            for name in ("patients", "march", "june"):
                con.run_script(f"EXPORT ANONYMIZED VIEW patients TO '{name}.duckdb'")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    (folder / "visits").mkdir()
    packed = gzip.compress((folder / "visits.csv").read_bytes())
    for name in ("visits.csv.gz", "visits/2026-01.csv.gz"):
        (folder / name).write_bytes(packed)
    (folder / "sql").symlink_to(ROOT / "sql")
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("block", BLOCKS)
def test_every_command_of_a_block_ends_with_0(block: str, scene: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(scene, tmp_path / "scene", symlinks=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in block.replace("\\\n", "").splitlines():
        if any(word in f"{line} " for word in ELSEWHERE):
            continue
        for endless, ending in ENDLESS.items():
            line = line.replace(endless, ending)
        done = subprocess.run(
            ["sh", "-e", "-c", line], capture_output=True, text=True, timeout=120, cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert (done.returncode, "error" in done.stderr) == (0, False), f"{line}\n{done.stdout}{done.stderr}"
