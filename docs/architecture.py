"""Write the picture and the table of rooms into docs/architecture.md, from the imports as they are.

``python docs/architecture.py`` writes them, with ``--check`` it fails where the page is not up to date.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by docs/architecture.py -->\n", "<!-- end of rooms -->"


def layers() -> list[list[str]]:
    """Rooms from the top to the bottom, as the import-linter holds them.

    Returns
    -------
    list of list of str
        Names of modules and packages in `duckanon`, one list a layer.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (each for each in settings["contracts"] if each["type"] == "layers")
    return [layer.replace(":", "|").replace(" ", "").split("|") for layer in contract["layers"]]


def purpose(room: str) -> str:
    """First sentence of what a room says of itself.

    Parameters
    ----------
    room : str
        A module or package in `duckanon`.

    Returns
    -------
    str
        Without a full stop.
    """
    path = ROOT / "duckanon" / room
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("``", "`")


def rooms() -> str:
    """Text of the picture and the table.

    Returns
    -------
    str
        Markdown.
    """
    graph = grimp.build_graph("duckanon", exclude_type_checking_imports=False)
    order = [room for layer in layers() for room in layer]
    modules = {room: graph.find_descendants(f"duckanon.{room}") | {f"duckanon.{room}"} for room in order}
    lines = [
        "```",
        *("  ".join(layer) for layer in layers()),
        "```",
        "",
        "| room | modules | imports | what it is |",
    ]
    lines.append("|---|---|---|---|")
    for room in order:
        below = [other for other in order if other != room and _imports(graph, modules[room], modules[other])]
        packages = len([name for name in modules[room] if not graph.find_children(name)])
        lines.append(f"| `{room}` | {packages} | {', '.join(below) or 'nothing'} | {purpose(room)} |")
    return "\n".join(lines) + "\n"


def _imports(graph: grimp.ImportGraph, above: set[str], below: set[str]) -> bool:
    return any(graph.find_modules_directly_imported_by(name) & below for name in above)


def main() -> int:
    """Write the page, or tell that it is not up to date.

    Returns
    -------
    int
        Exit code.
    """
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}{rooms()}{END}{after}"
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != text:
        sys.stderr.write("docs/architecture.md is not up to date: run python docs/architecture.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
