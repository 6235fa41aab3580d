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
import os
import sys
import threading
import time
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping

ROWS: Mapping[str | None, int] = {None: 400, "fast": 400, "balanced": 300, "best": 0}
"""Records of a table up to which kernels may run as plain Python: about 5 to 10 CPU s at each effort."""

RELEASE = 10.0
"""CPU seconds that plain Python may cost one release; what is left of it is done by compiled code."""

PATIENCE = 30.0
"""CPU seconds that plain Python may cost an installation before kernels are compiled: what compiling does."""

SPENT = "duckanon-plain.seconds"
"""File beside the compiled code that has a byte for every second spent."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_until: ContextVar[float] = ContextVar("until", default=0.0)
_lock = threading.RLock()
_spent = 0.0


@contextlib.contextmanager
def small(records: int, effort: str | None) -> Iterator[None]:
    """Let kernels that are not compiled yet run as plain Python if a table is small.

    Parameters
    ----------
    records : int
        Records of the table.
    effort : {'fast', 'balanced', 'best', None}
        Refinement, on which depends what is small: see `ROWS`.

    Yields
    ------
    None
        While the work goes on; other threads are not concerned, but for what is `carried` there.

    Notes
    -----
    Whoever has many small tables is better off with compiled code. So what plain Python has cost is added
    up, in this process and beside the compiled code, and after `PATIENCE` kernels are compiled; within one
    release after `RELEASE`, for a few records under a strict threshold can be as much work as many.
    """
    outside, before = _until.get(), _spent
    left = min(RELEASE, PATIENCE - max(_spent, _noted()))
    _until.set(before + left if records <= ROWS[effort] else 0.0)
    try:
        yield
    finally:
        _until.set(outside)
        _note(int(_spent) - int(before))


def carried(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function, which in any thread does what is allowed here."""
    context = copy_context()
    return lambda item: context.copy().run(work, item)


def preferred(function: Callable[..., object]) -> bool:
    """Tell whether a kernel that this process has not compiled is to run as plain Python."""
    return _spent < _until.get() and not _stored(function)


def run(function: Callable[..., object], arguments: tuple[Any, ...], *, by_entry: bool) -> Any:
    """Return what the text of a kernel gives; arrays as lists of rows if it takes them entry `by_entry`.

    As in compiled code, whole numbers wrap around and a division by zero of numpy's numbers gives infinity.
    """
    global _spent
    text = _texts(function.__module__)[function.__name__]
    begun = time.thread_time()
    try:
        with np.errstate(all="ignore"):
            return text(*map(_rows, arguments)) if by_entry else text(*arguments)
    finally:
        with _lock:
            _spent += time.thread_time() - begun


class _Rows(list[Any]):
    """An array of several dimensions as a list; what is written in its rows is written in the array."""

    __slots__ = ("shape",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__(map(_rows, array))
        self.shape = array.shape


def _rows(argument: Any) -> Any:
    """Return an argument with memory views for arrays: they give Python's numbers, which are faster."""
    if isinstance(argument, tuple):
        return type(argument)(*map(_rows, argument))
    # Random bits wrap around as numpy's numbers only, and records have named fields.
    if not isinstance(argument, np.ndarray) or argument.dtype.kind not in "bif":
        return argument
    return memoryview(argument.data) if argument.ndim == 1 else _Rows(argument)


def _texts(name: str) -> dict[str, Any]:
    """Return the names of a module with the texts of all kernels, its own and those that it imports."""
    with _lock:
        return _made(name)


@functools.cache
def _made(name: str) -> dict[str, Any]:
    import ast
    import inspect

    module = sys.modules[name]
    tree = ast.parse(inspect.getsource(module))
    own = dict(vars(module))
    kernels = {key: value.py_func for key, value in own.items() if hasattr(value, "py_func")}
    for key, function in kernels.items():
        own[key] = function if function.__module__ == name else _made(function.__module__)[function.__name__]
    # Typed for the compiler; a Python number is faster.
    own.update({key: int(value) for key, value in own.items() if isinstance(value, np.int64)})
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


def _stored(function: Callable[..., object]) -> bool:
    """Tell whether numba has code of a kernel on disk, without importing numba.

    Its files are named ``<file>.<function>-<line>.py<version>.nbi``; those older than the source are no use.
    """
    code = function.__code__
    version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    file = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}.{version}.nbi"
    return any(_fresh(folder / file, code.co_filename) is not None for folder in _folders(code.co_filename))


def _folders(source: str) -> list[Path]:
    """Return where numba keeps compiled code of a source file: where it is told to, beside it, or at home."""
    folder = Path(source).absolute().parent
    own = f"{folder.name}_{hashlib.sha1(str(folder).encode(), usedforsecurity=False).hexdigest()}"
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(told) / own]
    return [folder / "__pycache__", _home() / own]


def _home() -> Path:
    """Return the folder of numba among the caches of the user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "")) / "numba" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/numba").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "numba"


def _fresh(file: Path, source: str) -> os.stat_result | None:
    """Return what is known of a file that is not older than a source file, None if there is no such file."""
    try:
        found = file.stat()
        return found if found.st_mtime >= Path(source).stat().st_mtime else None
    except OSError:
        return None


def _noted() -> int:
    """Return the seconds that plain Python has cost this installation, as far as they are noted."""
    known = (_fresh(folder / SPENT, __file__) for folder in _folders(__file__))
    return max((found.st_size for found in known if found is not None), default=0)


def _note(seconds: int) -> None:
    """Note seconds in the first folder that can be written; where there is none, the process knows them."""
    for folder in _folders(__file__) if seconds else ():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            stale = _fresh(folder / SPENT, __file__) is None
            with (folder / SPENT).open("wb" if stale else "ab") as file:
                file.write(b"." * seconds)
            return
