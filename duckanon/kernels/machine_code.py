"""How machine code of kernels is kept in a folder: by numba's own files, whatever processor compiled it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from duckanon.kernels.prepared import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Prepared(FunctionCache):
    """Numba's cache of a function, which is asked only for what a folder does not have."""

    def __init__(self, function: Callable[..., object], folder: Path) -> None:
        super().__init__(function)
        self._prepared = _file(function, folder)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        signature, _, text = self._index_key(sig, target_context.codegen())
        data = self._prepared.load((signature, text))
        if data is None:
            return super()._load_overload(sig, target_context)
        return self._impl.rebuild(target_context, data)


def keep(function: Callable[..., object], folder: Path) -> int:
    """Copy what numba's cache has of a function into a folder.

    Parameters
    ----------
    function : callable
        The text of a kernel.
    folder : Path
        Where machine code is kept.

    Returns
    -------
    int
        For how many types of arguments there was code.
    """
    cache, kept = FunctionCache(function)._cache_file, _file(function, folder)
    known = cache._load_index()
    for (signature, _, text), name in known.items():
        kept.save((signature, text), cache._load_data(name))
    return len(known)


def _file(function: Callable[..., object], folder: Path) -> Any:
    """Return numba's file of machine code by types of arguments; `prepared` has asked for the sources."""
    return IndexDataCacheFile(str(folder), name_of(function), source_stamp=None)
