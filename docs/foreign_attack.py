"""Write a foreign attack on releases of Adult into docs/trust.md: ``python docs/foreign_attack.py``.

The attack is that of `anonymity-loss-coefficient`, which needs pandas below 3 and so an environment of its own
(CONTRIBUTING.md). This script makes the releases and calls itself there, once a table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "trust.md"
BEGIN, END = "<!-- attack: written by docs/foreign_attack.py -->\n", "<!-- end of attack -->\n"
ADULT = Path(os.environ.get("DUCKANON_REFERENCE") or ROOT.parent / "shared" / "data") / "adult" / "adult.csv"
ATTACKER = ROOT / ".venv" / "anonymity-loss" / "bin" / "python"

RECORDS = 8_000
QUASI_IDENTIFIERS = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass"]
SECRETS = ["salary-class", "occupation"]
POLICIES: dict[str, dict[str, float]] = {
    "k = 5": {"k": 5},
    "k = 5, l = 2": {"k": 5, "l": 2},
    "k = 5, t = 0.2": {"k": 5, "t": 0.2},
}


def release(original: Path, file: Path, thresholds: dict[str, float]) -> None:
    """Write the release of a Parquet file to another one."""
    import duckanon

    policy = duckanon.Policy(quasi_identifiers=QUASI_IDENTIFIERS, sensitive=SECRETS, **thresholds)
    with duckanon.connect() as con:
        duckanon.anonymize(con, f"FROM '{original}'", policy, name="released")
        con.execute(f"EXPORT ANONYMIZED VIEW released TO '{file}'")


def attack(original: Path, released: Path) -> list[float]:
    """Return the anonymity loss coefficient of each secret; this runs where the attack is installed."""
    import pandas
    from anonymity_loss_coefficient.attacks import BrmAttack

    found = []
    for secret in SECRETS:
        with tempfile.TemporaryDirectory() as folder:
            attacker = BrmAttack(pandas.read_parquet(original), pandas.read_parquet(released), folder)
            attacker.run_one_attack(secret, QUASI_IDENTIFIERS)
            found.append(float(attacker.alcm.halt_info["alc"]))
    return found


def attacked(original: Path, released: Path) -> list[float]:
    """Run the attack in its own environment."""
    command = [ATTACKER, __file__, "--original", original, "--released", released]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def table() -> str:
    """Return the table: one line for the raw records and for each policy."""
    import duckdb

    lines = [f"| released | {' | '.join(SECRETS)} |", f"|---|{'---:|' * len(SECRETS)}"]
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "original.parquet"
        columns = ", ".join(f'"{column}"' for column in [*QUASI_IDENTIFIERS, *SECRETS])
        with duckdb.connect() as con:
            con.execute(
                f"COPY (SELECT {columns} FROM read_csv('{ADULT}', delim = ';') LIMIT {RECORDS}) TO '{original}'"
            )
        for number, (name, thresholds) in enumerate({"the raw records": {}, **POLICIES}.items()):
            file = original if not thresholds else Path(folder) / f"{number}.parquet"
            if thresholds:
                release(original, file, thresholds)
            coefficients = attacked(original, file)
            lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in coefficients)} |")
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
