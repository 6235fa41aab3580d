"""Answers of pyCANON, line by line; it runs in an environment of its own and imports nothing of this project.

A line of input is JSON: ``columns`` (name to values) or ``csv`` (a path), ``text`` (columns to be read as
text), ``index`` (labels of the rows), ``qi``, ``s``, and ``calls`` (measures). The answer gives ``results``
and ``seconds`` (CPU time) of each, and ``pandas`` (its version); a measure that raises has ``error: ...`` as its
result.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd
from pycanon import anonymity
from pycanon.metrics import average_ecsize, average_rir, discernability_metric, max_rir

if TYPE_CHECKING:
    from collections.abc import Callable

MEASURES: dict[str, Callable[[pd.DataFrame, list[str], list[str]], Any]] = {
    "k": lambda data, qi, _: anonymity.k_anonymity(data, qi),
    "l": anonymity.l_diversity,
    "l_others_known": lambda data, qi, s: anonymity.l_diversity(data, qi, s, gen=False),
    "entropy_l": anonymity.entropy_l_diversity,
    "recursive": anonymity.recursive_c_l_diversity,
    "t": anonymity.t_closeness,
    "t_others_known": lambda data, qi, s: anonymity.t_closeness(data, qi, s, gen=False),
    "alpha": lambda data, qi, s: anonymity.alpha_k_anonymity(data, qi, s)[0],
    "delta": anonymity.delta_disclosure,
    "beta": anonymity.basic_beta_likeness,
    "enhanced_beta": anonymity.enhanced_beta_likeness,
    "max_rir": lambda data, qi, _: max_rir(data, qi),
    "average_rir": lambda data, qi, _: average_rir(data, qi),
    "discernability": lambda data, qi, _: discernability_metric(data, data, qi),
    "average_ecsize": lambda data, qi, _: average_ecsize(data, data, qi),
}


def table(request: dict[str, Any]) -> pd.DataFrame:
    """Give the data of a request."""
    types = dict.fromkeys(request.get("text", ()), str)
    if "csv" in request:
        return pd.read_csv(request["csv"], dtype=types)
    return pd.DataFrame(request["columns"], index=request.get("index"))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Give results and CPU seconds of every measure."""
    data = table(request)
    results, seconds = {}, {}
    for name in request["calls"]:
        start = time.process_time()
        try:
            found = MEASURES[name](data, request["qi"], request["s"])
        except Exception as error:  # noqa: BLE001 - what it raises is its answer
            found = f"error: {type(error).__name__}"
        seconds[name] = time.process_time() - start
        results[name] = found
    return {"results": results, "seconds": seconds, "pandas": pd.__version__}


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        reply = json.dumps(answer(json.loads(line)), default=float)
        sys.stdout.write(reply + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
