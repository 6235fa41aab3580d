"""How machine code of kernels is kept in a folder: in numba's own files, for any processor that compiled it.

Numba's own cache puts the very processor into its key. Only that kept its files from being used on another
machine.

These private parts of numba are used, as of numba 0.68.1: `_cache` of a dispatcher, `FunctionCache` with
`_cache_file`, `_impl`, `_index_key` and `_load_overload`, `IndexDataCacheFile` with `_version`, `_load_index`
and `_load_data`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from duckanon.kernels.prepared import name_of, numba_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger("duckanon")


class KernelCache(FunctionCache):
    """Numba's cache of a function, used only for code that a folder of machine code does not have."""

    def __init__(self, function: Callable[..., object], folder: Path | None) -> None:
        super().__init__(function)
        self._prepared = None if folder is None else _file(function, folder)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        if self._prepared is not None:
            try:
                signature, _, text = self._index_key(sig, target_context.codegen())
                data = self._prepared.load((signature, text))
                found = None if data is None else self._impl.rebuild(target_context, data)
            except Exception as error:  # noqa: BLE001  # whatever another numba throws, it can compile the function
                logger.info("machine code of %s is left alone: %s", self._name, error)
        try:
            return super()._load_overload(sig, target_context) if found is None else found
        except Exception as error:  # noqa: BLE001  # numba reads types of older sources before it compares sources
            logger.info("compiled code of %s is made anew: %s", self._name, error)
            self.flush()
            return None


def attach(dispatcher: Any, folder: Path | None) -> None:
    """Let numba look for the machine code of a function in a folder first, and forget an unreadable cache."""
    dispatcher._cache = KernelCache(dispatcher.py_func, folder)


def keep(function: Callable[..., object], folder: Path) -> int:
    """Copy the files of a function in numba's cache to a folder; return for how many types of arguments."""
    cache, kept = FunctionCache(function)._cache_file, _file(function, folder)
    known = cache._load_index()
    for (signature, _, text), name in known.items():
        kept.save((signature, text), cache._load_data(name))
    return len(known)


def _file(function: Callable[..., object], folder: Path) -> Any:
    """Return numba's file of machine code by types of arguments; `prepared` has compared the sources."""
    file = IndexDataCacheFile(str(folder), name_of(function), source_stamp=None)
    file._version = numba_version()
    return file
