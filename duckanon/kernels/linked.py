"""How numba compiles kernels that call each other: one is whole, the others are the text that it takes in.

Numba optimises a function, makes machine code of it, and links its text, in the language of LLVM, into every
function that calls it, where all is optimised anew. What nobody calls but compiled code never runs by itself,
so that its text is enough (`Linked`). That spares a quarter of the time in which kernels compile.

In the kernel that takes them in, numba leaves these functions to be called from elsewhere, too, so that each
call hands over every array of its named tuples, taken apart: some 280 numbers for the state of the exchange,
of which a function needs ten. Where they are private to it (`Whole`) LLVM drops what is not needed.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering


class _Codegen:
    """Stands for numba's generator of code where that would look for a variable in machine code."""

    def set_env(self, *_: object) -> None:
        """Do nothing: what would be set is a variable of the machine code."""


class _Text(JITCodeLibrary):
    """The text of a function: what its callers link, not optimised as a whole, and without machine code."""

    @property
    def codegen(self) -> Any:
        return _Codegen()

    def _optimize_final_module(self) -> None:
        """Leave that to the callers, which optimise the text once more in any case."""

    def _finalize_final_module(self) -> None:
        """Look for what cannot be cached, as numba does, and hand nothing to the linker."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        """Tell that there is none, as numba does where there is no way in from Python."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """Return what the cache keeps: the text alone."""
        return self.serialize_using_bitcode()


class _Private(JITCodeLibrary):
    """The machine code of a function, in which all that it takes in is private to it."""

    def _optimize_final_module(self) -> None:
        """Declare what was taken in private, and go on as numba does.

        Functions that merely cannot be called from elsewhere would keep their names, by which the linker of
        this process finds them for others that still hand over everything.
        """
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                function.linkage = Linkage.private
        super()._optimize_final_module()


@register_pass(mutates_CFG=True, analysis_only=False)
class _TextLowering(NativeLowering):
    """Numba's lowering, into a text."""

    _name = "duckanon_text_lowering"
    _library: type[JITCodeLibrary] = _Text

    def run_pass(self, state: Any) -> bool:
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _WholeLowering(_TextLowering):
    """Numba's lowering, into machine code."""

    _name, _library = "duckanon_whole_lowering", _Private


class Linked(Compiler):
    """Numba's compiler, whose last pass makes a text."""

    lowering: type[NativeLowering] = _TextLowering

    def define_pipelines(self) -> list[Any]:
        """Return numba's own passes with another one for lowering."""
        (usual,) = super().define_pipelines()
        manager = PassManager(self.lowering._name)
        for one, told in usual.passes:
            manager.add_pass(self.lowering if one is NativeLowering else one, told)
        manager.finalize()
        return [manager]


class Whole(Linked):
    """Numba's compiler, whose last pass makes machine code that shares nothing."""

    lowering = _WholeLowering
