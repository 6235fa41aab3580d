"""Kernels as plain Python."""

from __future__ import annotations

import ast
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from duckanon.kernels import plain
from duckanon.kernels.first.one_by_one import _add


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


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(24).reshape(2, 3, 4)[:, ::2],
        np.arange(12)[::3].reshape(2, 2) > 3,
        np.zeros((0, 3)),
        np.zeros((3, 0)),
    ],
)
def test_what_is_written_in_rows_is_written_in_the_array(array: np.ndarray[Any, Any]) -> None:
    def listed(rows: Any) -> Any:
        return [listed(row) for row in rows] if isinstance(rows, list) else rows.tolist()

    rows = plain._rows(array)
    assert rows.shape == array.shape
    assert listed(rows) == array.tolist()
    if array.size:
        row = rows[-1] if array.ndim == 2 else rows[-1][-1]
        row[1] = True
        assert array[(-1,) * (array.ndim - 1)][1] == 1


def test_entries_of_a_table_are_numbers_of_python_to_be_read() -> None:
    table = np.array([(2, 0.5), (3, 1.5)], dtype=[("size", np.int64), ("share", np.float64)])
    entries = plain._rows(table)
    assert [[*map(type, entry.values())] for entry in entries] == [[int, float]] * 2
    assert entries == [{"size": 2, "share": 0.5}, {"size": 3, "share": 1.5}]
    with pytest.raises(TypeError, match="field 'size' is for reading"):
        entries[0]["size"] = 4
