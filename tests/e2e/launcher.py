"""Processes of the command line without the seconds that a start takes: one that has started forks.

What a test gets is a process of its own with arguments, folder, environment, output and exit code like any
other. A variable that the interpreter or a library reads at its start needs a real start: see `forks`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]

AT_START = ("PYTHON", "NUMBA_", "OPENBLAS_", "OMP_", "NPY_", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ")
"""Beginnings of the names of variables that are read once, at the start of a process."""


def forks(environment: Mapping[str, str]) -> bool:
    """Tell whether a fork with these variables is what a new process would be; long runs start new ones."""
    usual = os.environ.get("DUCKANON_TESTS") != "long" and hasattr(os, "fork")
    return usual and not any(name.startswith(AT_START) for name in environment)


def run(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a fork, and give what `subprocess.run` would."""
    server = _server()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)}
        server.settimeout(timeout)
        socket.send_fds(server, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        code = int(server.recv(64))
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["duckanon", *arguments], code, *texts)


@cache
def _server() -> socket.socket:
    """Start the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.launcher", str(theirs.fileno())],
        cwd=ROOT,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait(timeout=60)

    atexit.register(end)
    return ours


def serve(channel: socket.socket) -> None:
    """Fork for every request until nobody asks any more."""
    import duckanon.cli.main

    warm()
    gc.collect()
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(channel, 2**20, 2)
        if not text:
            return
        process = os.fork()
        if not process:
            channel.close()
            become(json.loads(text), files)
            os._exit(code_of(duckanon.cli.main.main))
        for file in files:
            os.close(file)
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())


def warm() -> None:
    """Make a release, which loads numba, the kernels of small tables and the templates."""
    import duckanon

    options = "quasi_identifiers = (x), sensitive = (y), k = 3, t = 0.4, effort = 'fast'"
    with duckanon.connect() as con:
        con.execute("CREATE TABLE numbers AS SELECT i AS x, i % 7 AS y FROM range(40) AS r(i)")
        con.execute(f"CREATE ANONYMIZED VIEW warm AS SELECT * FROM numbers WITH ({options})")


def become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Take the output, folder, variables and arguments that were asked for."""
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]


def code_of(main: Callable[[], None]) -> int:
    """Run the command line; to take the whole interpreter apart afterwards would cost more than most commands."""
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)
