"""Write a foreign attack on releases of Adult into docs/attack.md: ``python docs/foreign_attack.py``.

The attack is that of `anonymity-loss-coefficient`. It needs pandas below 3, and so an environment of its own:
CONTRIBUTING.md says how it is made. This script makes the releases, and calls itself there for each table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attack.md"
BEGIN, END = "<!-- attack: written by docs/foreign_attack.py -->\n", "<!-- end of attack -->\n"
ADULT = Path(os.environ.get("DUCKANON_REFERENCE") or ROOT.parent / "shared" / "data") / "adult" / "adult.csv"
ATTACKER = ROOT / ".venv" / "anonymity-loss" / "bin" / "python"

RECORDS = 8_000
QUASI_IDENTIFIERS = [
    "sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"
]  # fmt: skip
SECRET = "salary-class"
SEEDS = (1, 2, 3)
POLICIES: dict[str, dict[str, float]] = {
    "k = 5": {"k": 5},
    "k = 5, l = 2": {"k": 5, "l": 2},
    "k = 5, t = 0.2": {"k": 5, "t": 0.2},
}


def release(original: Path, file: Path, thresholds: dict[str, float]) -> None:
    """Write the release of a Parquet file to another one."""
    import duckanon

    policy = duckanon.Policy(quasi_identifiers=QUASI_IDENTIFIERS, sensitive=SECRET, **thresholds)
    with duckanon.connect() as con:
        duckanon.anonymize(con, f"FROM '{original}'", policy, name="released")
        con.execute(f"EXPORT ANONYMIZED VIEW released TO '{file}'")


def attack(original: Path, released: Path) -> list[float]:
    """Return an anonymity loss coefficient for each seed; this runs where the attack is installed."""
    import random

    import numpy
    import pandas
    from anonymity_loss_coefficient.attacks import BrmAttack

    found = []
    for seed in SEEDS:
        random.seed(seed)
        numpy.random.seed(seed)  # noqa: NPY002 - the attack draws from the global generator
        with tempfile.TemporaryDirectory() as folder:
            attacker = BrmAttack(pandas.read_parquet(original), pandas.read_parquet(released), folder)
            attacker.run_one_attack(SECRET, QUASI_IDENTIFIERS)
            found.append(float(attacker.alcm.halt_info["alc"]))
    return found


def attacked(original: Path, released: Path) -> str:
    """Run the attack in its own environment; return least, middle and largest coefficient as cells."""
    command = [ATTACKER, __file__, "--original", original, "--released", released]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = sorted(float(word) for word in done.stdout.splitlines()[-1].split())
    return f"{found[len(found) // 2]:.2f} | {found[0]:.2f} to {found[-1]:.2f}"


def table() -> str:
    """Return the table: one line for the raw records and for each policy."""
    import duckdb

    lines = ["| what the attacker has | middle of three runs | least to largest |", "|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "original.parquet"
        columns = ", ".join(f'"{column}"' for column in [*QUASI_IDENTIFIERS, SECRET])
        source = f"SELECT {columns} FROM read_csv('{ADULT}', delim = ';') LIMIT {RECORDS}"
        with duckdb.connect() as con:
            con.execute(f"COPY ({source}) TO '{original}'")
        lines.append(f"| the raw records | {attacked(original, original)} |")
        for number, (name, thresholds) in enumerate(POLICIES.items()):
            file = Path(folder) / f"{number}.parquet"
            release(original, file, thresholds)
            lines.append(f"| released with {name} | {attacked(original, file)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Attack, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--original", type=Path)
    parser.add_argument("--released", type=Path)
    given = parser.parse_args()
    if given.released:
        sys.stdout.write(" ".join(map(str, attack(given.original, given.released))) + "\n")
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
