"""What a wheel takes along beside the sources: machine code of kernels, if it is of these very sources."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from types import ModuleType


class MachineCode(BuildHookInterface):  # type: ignore[type-arg]  # its type is that of the builder's configuration
    """Puts the folder that `duckanon.release.prepare` makes into the wheel, which then is for one system."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder and the tag of this Python and system; without machine code a wheel is for all."""
        prepared = _prepared(Path(self.root))
        if version == "editable" or not prepared.FOLDER.is_dir():
            return
        if not prepared.is_current(prepared.FOLDER):
            why = "left out, since it is of other sources or for another Python"
            self.app.display_warning(f"{why}: {prepared.FOLDER} (make wheel)")
            return
        build_data["force_include"][str(prepared.FOLDER)] = "duckanon/machine_code"
        build_data["pure_python"], build_data["infer_tag"] = False, True


def _prepared(root: Path) -> ModuleType:
    """Load the one file that knows: where a wheel is built, nothing that the package needs is installed."""
    spec = importlib.util.spec_from_file_location("prepared", root / "duckanon" / "kernels" / "prepared.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"duckanon/kernels/prepared.py is missing in {root}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
