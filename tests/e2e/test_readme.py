"""The README shows what the two commands print, and is short."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from types import ModuleType

README = (ROOT / "README.md").read_text(encoding="utf-8")


def module() -> ModuleType:
    """Load docs/readme.py, which is no package."""
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_printed_output_is_what_comes_out() -> None:
    assert module().page(README) == README, "run make readme"


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= 150
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_option_and_method_is_in_the_docs() -> None:
    import duckanon
    from duckanon.policy import OPTIONS

    options = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for name in OPTIONS:
        assert f"`{name}`" in options, name
    for method in duckanon.methods():
        assert f"`{method.name}`" in README, method.name
