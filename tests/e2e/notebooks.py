"""Notebooks of `examples/notebooks`, executed in a kernel of their own.

``python -m tests.e2e.notebooks`` executes all notebooks and writes their outputs into them.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_client.blocking.client import BlockingKernelClient

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

CELL_TIMEOUT_SECONDS = 300


@contextmanager
def kernel(folder: Path | str) -> Iterator[BlockingKernelClient]:
    """Give a kernel that runs in a folder and knows this checkout."""
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def executed(client: BlockingKernelClient, source: str) -> list[dict[str, Any]]:
    """Outputs of a cell, as a notebook holds them; an AssertionError if the cell fails."""
    shown: list[dict[str, Any]] = []
    reply = client.execute_interactive(
        source, output_hook=shown.append, timeout=CELL_TIMEOUT_SECONDS, allow_stdin=False
    )
    assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", ()))
    count = reply["content"]["execution_count"]
    outputs: list[dict[str, Any]] = []
    for message in shown:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            last = outputs[-1] if outputs else {}
            if last.get("name") == content["name"]:
                last["text"] += lines(content["text"])
            else:
                outputs.append({"output_type": kind, "name": content["name"], "text": lines(content["text"])})
        elif kind in ("execute_result", "display_data"):
            data = {mime: lines(text) for mime, text in content["data"].items()}
            counted = {"execution_count": count} if kind == "execute_result" else {}
            outputs.append({"output_type": kind, "data": data, "metadata": {}, **counted})
    return outputs


def lines(text: str) -> list[str]:
    """Lines of a text, as a notebook holds them."""
    return text.splitlines(keepends=True)


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    """Texts of the outputs of a cell, without pictures and HTML."""
    found = [one["text"] if "text" in one else one["data"]["text/plain"] for one in outputs]
    return ["".join(text) for text in found]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells of a notebook that are executed."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def write(path: Path) -> None:
    """Execute a notebook in an empty folder, and write its outputs."""
    notebook = json.loads(path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder, kernel(folder) as client:
        for number, cell in enumerate(code_cells(notebook), start=1):
            cell["outputs"], cell["execution_count"] = executed(client, "".join(cell["source"])), number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for one in NOTEBOOKS:
        write(one)
