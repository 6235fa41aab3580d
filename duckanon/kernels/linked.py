"""How numba compiles kernels that only compiled code calls: to the text that their callers take in.

Numba optimises a function, makes machine code of it, and links its text, in the language of LLVM, into every
function that calls it, where all is optimised anew. What nobody calls but compiled code never runs by itself,
so that its text is enough. That spares a quarter of the time in which kernels compile, and they run as fast.
"""

from __future__ import annotations

from typing import Any

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


@register_pass(mutates_CFG=True, analysis_only=False)
class _TextLowering(NativeLowering):
    """Numba's lowering, into a text."""

    _name = "duckanon_text_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Text(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class Linked(Compiler):
    """Numba's compiler, whose last pass makes a text."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's own passes with another one for lowering."""
        (usual,) = super().define_pipelines()
        manager = PassManager("duckanon_text")
        for one, told in usual.passes:
            manager.add_pass(_TextLowering if one is NativeLowering else one, told)
        manager.finalize()
        return [manager]
