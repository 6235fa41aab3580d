"""The natural logarithm with the same digits on every processor.

Those of the C library, of numpy and of LLVM each pick their code by the make of the processor, and differ in
the last digit now and then; the entropy of a class decides what may be merged or exchanged.
"""

from __future__ import annotations

import math

from duckanon.kernels.compiled import compiled

LN_2 = 0.6931471805599453
HALF_ROOT = math.sqrt(0.5)
SERIES_TERMS = 12
"""Of the series of 2 artanh(f) for |f| < 0.172: what it leaves out is below 1e-19."""


@compiled
def logarithm(x: float) -> float:
    """Return ln x of a finite x above 0 by additions, multiplications and divisions in a fixed order.

    The error is about 1e-16 times the larger of 1 and the result.
    """
    share, exponent = math.frexp(x)
    if share < HALF_ROOT:
        share *= 2.0
        exponent -= 1
    f = (share - 1.0) / (share + 1.0)
    square, series = f * f, 0.0
    for term in range(SERIES_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return float(exponent * LN_2 + 2.0 * f * series)
