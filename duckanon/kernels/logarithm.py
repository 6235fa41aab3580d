"""The natural logarithm with the same digits on every processor.

The logarithms of the C library, of numpy and of LLVM choose their code by the make of the processor. They may
differ in the last digit. The entropy of a class decides what may be merged or exchanged, so digits matter.
"""

from __future__ import annotations

import math

from duckanon.kernels.compiled import compiled

LN_2 = 0.6931471805599453
HALF_ROOT = math.sqrt(0.5)
SERIES_TERMS = 12
"""Terms of the series of 2 artanh(f) for |f| < 0.172; the omitted terms are below 1e-19."""


@compiled
def logarithm(x: float) -> float:
    """Return ln x of a finite x above 0, by additions, multiplications and divisions in a fixed order."""
    # The error is about 1e-16 times the larger of 1 and the result.
    share, exponent = math.frexp(x)
    if share < HALF_ROOT:
        share *= 2.0
        exponent -= 1
    f = (share - 1.0) / (share + 1.0)
    square, series = f * f, 0.0
    for term in range(SERIES_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return float(exponent * LN_2 + 2.0 * f * series)
