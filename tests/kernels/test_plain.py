"""Kernels as plain Python."""

from __future__ import annotations

import ast
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.kernels import plain
from duckanon.kernels.first.one_by_one import _add

if TYPE_CHECKING:
    import pytest


def test_threads_read_the_text_of_kernels_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.7 raised "AST constructor recursion depth mismatch" where two threads parsed at a time."""
    parse, lock, inside, most = ast.parse, threading.Lock(), 0, 0

    def slow(*given: Any, **named: Any) -> ast.AST:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        tree = parse(*given, **named)
        with lock:
            inside -= 1
        return tree

    def sums(_: int) -> list[float]:
        total = np.zeros(2)
        plain.run(_add.py_func, (np.array([[1.0, 2.0], [3.0, 5.0]]), total), by_entry=False)
        return total.tolist()

    plain._texts.cache_clear()
    monkeypatch.setattr(ast, "parse", slow)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(sums, range(4)))
    assert most == 1
    assert answers == [[4.0, 7.0]] * 4
