"""Kernels as plain Python: for a small table the text of a kernel costs less than compiling it once.

Nothing is written twice. The text is the source of the kernel itself, in which only indices are put in
another way: ``a[i, j]`` is read as ``a[i][j]``, which lists of rows understand, too, and they answer in a
third of the time of numpy. Results are the same, digit for digit: kernels take no sums, sorts or functions
of numpy whose order of operations numba does not share; roots, powers and logarithms come from the same
library.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import stat
import sys
import threading
import time
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from duckanon.kernels import prepared

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping

ROWS: Mapping[str | None, int] = {None: 400, "fast": 300, "balanced": 300, "best": 0}
"""Records of a table up to which kernels may run as plain Python: about 5 to 15 CPU s at each effort."""

RELEASE = 20.0
"""CPU seconds after which a release goes on with compiled code; asked before each kernel, not within one."""

PATIENCE = 60.0
"""CPU seconds that plain Python may cost an installation before kernels are compiled: what compiling does."""

SPENT = "duckanon-plain.hundredths"
"""File beside the compiled code that has a byte for every hundredth of a second spent."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Budget:
    """CPU seconds that a release may spend on plain Python, and those that it has spent."""

    allowed: float
    spent: float = 0.0


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)
_lock = threading.Lock()
_parsing = threading.RLock()
_spent = 0.0


@contextlib.contextmanager
def small(records: int, effort: str | None, work: int = 1) -> Iterator[None]:
    """Let kernels that are not compiled yet run as plain Python if a table is small.

    Whoever has many small tables is better off with compiled code. So what plain Python has cost is added
    up, in this process and beside the compiled code, and after `PATIENCE` kernels are compiled.

    Parameters
    ----------
    records : int
        Records of the table.
    effort : {'fast', 'balanced', 'best', None}
        Refinement, on which depends what is small: see `ROWS`.
    work : int
        `work_of` the thresholds, by which the permitted records are divided: nothing ends a kernel.

    Yields
    ------
    None
        While the work goes on; other threads are not concerned, but for what is `carried` there.
    """
    global _spent
    outside, here = _budget.get(), None
    if records * work <= ROWS[effort]:
        here = _Budget(min(RELEASE, PATIENCE - max(_spent, _noted(0.0))))
    _budget.set(here)
    try:
        yield
    finally:
        _budget.set(outside)
        if here is not None and here.spent:
            with _lock:
                _spent += here.spent
            _noted(here.spent)


def carried(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function, which in any thread does what is allowed here."""
    context = copy_context()
    return lambda item: context.copy().run(work, item)


def preferred(function: Callable[..., object]) -> bool:
    """Tell whether a kernel that this process has not compiled is to run as plain Python."""
    budget = _budget.get()
    return budget is not None and budget.spent < budget.allowed and not stored(function)


def run(function: Callable[..., object], arguments: tuple[Any, ...], *, by_entry: bool) -> Any:
    """Return what the text of a kernel gives; arrays as lists of rows if it takes them entry `by_entry`.

    As in compiled code, whole numbers wrap around and a division by zero of numpy's numbers gives infinity.
    """
    # Python 3.11 may raise a SystemError where two threads parse at a time.
    with _parsing:
        text = _texts(function.__module__)[function.__name__]
    budget = _budget.get() or _Budget(0.0)
    begun = time.thread_time()
    try:
        with np.errstate(all="ignore"):
            return text(*map(_rows, arguments)) if by_entry else text(*arguments)
    finally:
        with _lock:
            budget.spent += time.thread_time() - begun


def stored(function: Callable[..., object]) -> bool:
    """Tell whether there is code of a kernel, prepared or in numba's cache, without importing numba.

    In the cache it may be of an older source. Of several types of arguments it is the code of the first.
    The index beside it is written earlier.
    """
    if prepared.has(function):
        return True
    code = function.__code__
    version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    file = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}.{version}.1.nbc"
    return os.path.exists(os.path.join(_folder(code.co_filename), file))


class _Rows(list[Any]):
    """An array of several dimensions as a list; what is written in its rows is written in the array."""

    __slots__ = ("shape",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.shape = array.shape
        if array.ndim > 2 or not array.flags.c_contiguous:
            super().__init__(map(_rows, array))
        else:
            # Stretches of one view: an array for every row takes three times as long.
            whole, width = array.reshape(-1).data, array.shape[1]
            super().__init__(whole[i * width : (i + 1) * width] for i in range(len(array)))


class _Entry(dict[str, Any]):
    """An entry of a table with named fields, to be read: Python's numbers, which are faster."""

    __slots__ = ()

    def __setitem__(self, field: str, value: Any) -> None:
        """Refuse what would not be written in the table."""
        raise TypeError(f"field {field!r} is for reading: an entry of a table is a copy")


def _rows(argument: Any) -> Any:
    """Return an argument with memory views for arrays: they give Python's numbers, which are faster."""
    if isinstance(argument, tuple):
        return type(argument)(*map(_rows, argument))
    if not isinstance(argument, np.ndarray):
        return argument
    if argument.dtype.names:
        return [_Entry(zip(argument.dtype.names, entry, strict=True)) for entry in argument.tolist()]
    # Random bits wrap around as numpy's numbers only.
    if argument.dtype.kind not in "bif":
        return argument
    return argument.data if argument.ndim == 1 else _Rows(argument)


@functools.cache
def _texts(name: str) -> dict[str, Any]:
    """Return the names of a module with the texts of all kernels, its own and those that it imports."""
    import ast
    import inspect

    module = sys.modules[name]
    tree = ast.parse(inspect.getsource(module))
    own = dict(vars(module))
    kernels = {key: value.py_func for key, value in own.items() if hasattr(value, "py_func")}
    for key, function in kernels.items():
        own[key] = function if function.__module__ == name else _texts(function.__module__)[function.__name__]
    # Typed for the compiler; a Python number is faster.
    own.update({key: int(value) for key, value in own.items() if isinstance(value, np.int64)})
    own.update({key: int for key, value in own.items() if value is np.uint64})
    tree.body = [_undecorated(each) for each in tree.body if getattr(each, "name", None) in kernels]
    exec(compile(_indexing()().visit(tree), str(module.__file__), "exec"), own)
    return own


def _undecorated(statement: Any) -> ast.stmt:
    """Return the definition of a kernel as one of a plain function; types are named for checks only."""
    statement.decorator_list, statement.returns = [], None
    for argument in statement.args.args:
        argument.annotation = None
    return statement  # type: ignore[no-any-return]


@functools.cache
def _indexing() -> type[ast.NodeTransformer]:
    """Return what puts ``a[i][j]`` for ``a[i, j]``, and ``a[i][j:k]`` for ``a[i, j:k]``."""
    import ast

    class Indexing(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
            self.generic_visit(node)
            if not isinstance(node.slice, ast.Tuple):
                return node
            *rows, last = node.slice.elts
            if any(isinstance(row, ast.Slice) for row in rows):
                return node
            value = node.value
            for row in rows:
                value = ast.copy_location(ast.Subscript(value, row, ast.Load()), node)
            return ast.copy_location(ast.Subscript(value, last, node.ctx), node)

    return Indexing


def _folder(source: str) -> str:
    """Return where numba keeps compiled code of a source file: where it is told to, beside it, or at home."""
    folder = os.path.dirname(os.path.abspath(source))
    own = f"{os.path.basename(folder)}_{hashlib.sha1(folder.encode(), usedforsecurity=False).hexdigest()}"
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return os.path.join(told, own)
    beside = os.path.join(folder, "__pycache__")
    if os.access(beside if os.path.exists(beside) else folder, os.W_OK):
        return beside
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/numba"
    if sys.platform in ("win32", "darwin"):
        caches = {"win32": "~/AppData/Local/numba/Cache", "darwin": "~/Library/Caches/numba"}[sys.platform]
    return os.path.join(os.path.expanduser(caches), own)  # where no home is known "~" stays, as in numba


def _noted(seconds: float) -> float:
    """Note seconds beside the compiled code, rounded up; return all noted there, 0 where nothing can be."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder(__file__)
        os.makedirs(folder, exist_ok=True)
        # Neither through a link nor into what waits for a reader.
        careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        file = os.open(os.path.join(folder, SPENT), os.O_WRONLY | os.O_APPEND | os.O_CREAT | careful, 0o666)
        with open(file, "ab", buffering=0) as notes:
            if stat.S_ISREG(os.fstat(file).st_mode):
                notes.write(b"." * math.ceil(100 * seconds))
                return os.fstat(file).st_size / 100
    return 0.0
