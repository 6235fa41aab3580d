"""The options `digits` and `min_values`: what is released, against the oracle, and what is asked wrongly."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.cli.main import main
from duckanon.errors import PolicyError
from duckanon.policy.bind import bind
from duckanon.policy.policy import Policy
from tests.oracle_recode import class_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DRAWS: dict[str, Callable[[random.Random], Any]] = {
    "TINYINT": lambda draw: draw.randint(120, 127),
    "UTINYINT": lambda draw: draw.randint(240, 255),
    "INTEGER": lambda draw: draw.randint(-5000, 5000),
    "HUGEINT": lambda draw: draw.randint(-(10**30), 10**30),
    "DECIMAL(4,2)": lambda draw: Decimal(draw.randint(9000, 9999)).scaleb(-2),
    "DECIMAL(12,4)": lambda draw: Decimal(draw.randint(-(10**8), 10**8)).scaleb(-4),
    "DOUBLE": lambda draw: draw.randint(-(10**7), 10**7) / 100,
}
LARGEST = {"TINYINT": 127, "UTINYINT": 255, "DECIMAL(4,2)": Decimal("99.99")}
"""Of types that a rounded mean may leave: it is then the largest multiple that there is."""


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("digits", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("recode", ["mean", "median"])
def test_means_are_rounded_as_asked(con: duckanon.Connection, recode: str, digits: int) -> None:
    draw, k = random.Random(f"{recode} {digits}"), 3
    classes = [{kind: [make(draw) for _ in range(k)] for kind, make in DRAWS.items()} for _ in range(8)]
    con.execute(f"CREATE TABLE p (own VARCHAR, {', '.join(f'c{n} {kind}' for n, kind in enumerate(DRAWS))})")
    con.duckdb.executemany(
        f"INSERT INTO p VALUES (?{', ?' * len(DRAWS)})",
        [[f"c{n}", *row] for n, one in enumerate(classes) for row in zip(*one.values(), strict=True)],
    )
    names = [f"c{n}" for n in range(len(DRAWS))]
    rules = ", ".join(f"{name}: {recode}" for name in names)
    con.sql(
        f"CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (own, {', '.join(names)}), k = {k}, "
        f"method = mdav, weights = {{own: 1e9}}, recode = {{{rules}}}, digits = {digits})"
    )
    found = con.execute("SELECT DISTINCT * FROM v ORDER BY own").fetchall()
    assert [row[0] for row in found] == [f"c{n}" for n in range(8)]
    for (_, *values), one in zip(found, classes, strict=True):
        for value, (kind, held) in zip(values, one.items(), strict=True):
            expected = class_value(held, recode, kind, digits=digits)
            if kind in LARGEST and expected > LARGEST[kind]:
                step = Decimal(10) ** -digits
                expected = type(expected)(LARGEST[kind] // step * step)
            assert value == (pytest.approx(expected, rel=1e-12) if kind == "DOUBLE" else expected), (
                kind,
                held,
            )
            assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("options", "columns", "reason"),
    [
        ({"digits": {"b": 1}}, {"a": "INTEGER"}, "digits names 'b', which is not in quasi_identifiers"),
        ({"digits": {"a": 1}}, {"a": "DATE"}, "digits names 'a', and dates are not rounded to digits"),
        ({"digits": {"a": 1}}, {"a": "VARCHAR"}, "digits names 'a', and 'mode' is not rounded to digits"),
        ({"digits": {"a": 1}, "recode": {"a": "range"}}, {"a": "DOUBLE"}, "and 'range' is not rounded"),
        ({"digits": 19}, {"a": "DOUBLE"}, "digits = 19: use an integer from -18 to 18"),
        ({"digits": 1.5}, {"a": "DOUBLE"}, "digits = 1.5: use an integer"),
        ({"digits": -2}, {"a": "DECIMAL(38,30)"}, r"digits = -2 of 'a', which is DECIMAL\(38,30\)"),
        ({"digits": 2, "release": "swap"}, {"a": "DOUBLE"}, "digits is of class means and release = 'swap'"),
        ({"min_values": 0}, {"a": "DOUBLE"}, "min_values = 0: use an integer of at least 1"),
        ({"min_values": 2, "release": "swap"}, {"a": "DOUBLE"}, "min_values is of class means and release"),
    ],
)
def test_what_is_asked_wrongly(options: dict[str, Any], columns: dict[str, str], reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        bind(Policy(quasi_identifiers="a", k=2, **options), list(columns.items()))


def test_a_policy_is_written_as_it_was_read() -> None:
    policy = Policy(quasi_identifiers=["a", "b"], k=2, min_values=1, digits={"a": -2})
    assert "min_values = 1" in policy.to_toml()
    assert Policy.from_toml(policy.to_toml()) == policy
    # What earlier versions wrote says nothing of either.
    assert Policy.from_toml('quasi_identifiers = ["a"]\nk = 4\n').least_values == 4


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_the_command_line_takes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: ages 20 and 21 beside incomes 120, 260, NULL: a mean of 190, in hundreds 200, of two values."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("age,income,ill\n20,120,a\n21,260,b\n20,,a\n", encoding="utf-8")
    command = ["anonymize", str(source), str(target), "--qi", "age,income", "--sensitive", "ill", "-k", "3"]
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*command, "--digits", "income=-2", "--min-values", "2"])
    assert set(target.read_text(encoding="utf-8").splitlines()[1:]) == {"20,200,a", "20,200,b"}
    with pytest.raises(SystemExit, match=r"^2$"):
        main([*command, "--digits", "income=x"])
    assert "--digits takes a number or column=number pairs, not 'x'" in capsys.readouterr().err
