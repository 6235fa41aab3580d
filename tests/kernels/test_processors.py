"""The same release on every make of processor: nothing that decides is computed by code chosen for one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import subprocess
import sys
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

import duckanon
from duckanon.cli.demo import census
from duckanon.kernels.closeness.threshold import logarithm
from duckanon.kernels.exchange.refine import WORK, _prices
from duckanon.kernels.neighbours.centroids import DIRECTIONS, principal

OTHER_MACHINE = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "2",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
}
"""Settings that make the libraries believe in an old processor; numpy's own are added where it has some."""

POLICY = """
CREATE OR REPLACE ANONYMIZED VIEW v AS
SELECT age, sex, race, education, marital_status, household_role, weeks_worked, occupation
FROM (FROM '{census}' SELECT *, row_number() OVER () AS number) WHERE number <= {records} WITH (
    quasi_identifiers = (age, sex, race, education, marital_status, household_role),
    sensitive = (weeks_worked, occupation), k = 3, effort = 'fast',
    {limits}
)
"""
LIMITS = (
    "t = {weeks_worked: 0.3, occupation: 0.5}",
    "l = {occupation: 1.5}, l_diversity = 'entropy'",
)


def features() -> np.ndarray[Any, Any]:
    """Points in more directions than are searched, from whole numbers, which no processor rounds."""
    draw = random.Random(1)
    rows = [[draw.randint(-9, 9) / (1 + column) for column in range(30)] for _ in range(300)]
    return np.array(rows)


def digests(records: int) -> dict[str, str]:
    """Digests of what the search works on, and of releases."""
    found = {"directions": principal(features(), np.arange(200)).tobytes()}
    with duckanon.connect() as con:
        for limits in LIMITS:
            con.execute(POLICY.format(census=census(), records=records, limits=limits))
            found[limits] = repr(con.duckdb.execute("FROM v").fetchall()).encode()
    return {name: hashlib.sha256(held).hexdigest() for name, held in found.items()}


def on_another_machine(records: int) -> dict[str, str]:
    """The digests of a process of its own."""
    features_of_numpy = np.show_config(mode="dicts")["SIMD Extensions"]["found"]  # type: ignore[index, call-overload]
    settings = OTHER_MACHINE | {"NPY_DISABLE_CPU_FEATURES": " ".join(features_of_numpy)}
    code = f"import json; from tests.kernels.test_processors import digests; print(json.dumps(digests({records})))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_release_does_not_depend_on_the_processor() -> None:
    """The directions came from LAPACK, whose code is chosen by processor: census_t of the README had others."""
    assert on_another_machine(500) == digests(500)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_large_release_does_not_depend_on_the_processor() -> None:
    """So many violating classes that merging searches its partners in few directions."""
    assert on_another_machine(300_000) == digests(300_000)


def test_the_directions_are_nearly_the_widest() -> None:
    """Eigenvectors of numpy span the widest ones; orthonormal directions never make a distance longer."""
    points = features()
    found = principal(points, np.arange(len(points)))
    centred = points - points.mean(axis=0)
    widest = np.linalg.eigvalsh(centred.T @ centred)[-DIRECTIONS:].sum()
    assert np.square(found - found.mean(axis=0)).sum() == pytest.approx(widest, rel=2e-3)
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    assert (np.square(found[:, None] - found[None]).sum(axis=2) <= apart * (1 + 1e-12)).all()


def test_directions_that_lack_are_left_out() -> None:
    """By hand: 20 columns that repeat 3 span 3 directions, and these hold every distance; so at any unit."""
    three = np.array(np.meshgrid(*[[0.0, 1.0, 5.0]] * 3)).reshape(3, -1).T
    points = three[:, np.arange(20) % 3]
    found = principal(points, np.arange(len(points)))
    assert np.count_nonzero(np.abs(found).max(axis=0) > 0) == 3
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    assert np.square(found[:, None] - found[None]).sum(axis=2) == pytest.approx(apart, rel=1e-12)
    assert np.array_equal(principal(points * 2.0**-600, np.arange(len(points))), found * 2.0**-600)


def test_the_logarithm_is_that_of_exact_decimals() -> None:
    """Oracle: Decimal.ln, correctly rounded to 40 digits."""
    draw = random.Random(2)
    numbers = [draw.random() for _ in range(300)] + [
        draw.randint(1, 99) / draw.randint(1, 99) for _ in range(300)
    ]
    numbers += [math.ldexp(draw.uniform(0.5, 1), draw.randint(-1000, 1000)) for _ in range(300)] + [
        1.0,
        5e-324,
    ]
    with localcontext(prec=40):
        for x in numbers:
            exact = Decimal(x).ln()
            assert abs(Decimal(logarithm(x)) - exact) <= Decimal("4e-16") * max(1, abs(exact))
    assert logarithm(1.0) == 0.0


def test_prices_grow_in_equal_ratios() -> None:
    for work in WORK.values():
        prices = _prices(work.levels)
        assert (prices[0], prices[-1]) == (2.0, 400.0)
        assert prices == pytest.approx(list(np.geomspace(2, 400, work.levels)), rel=1e-14)
