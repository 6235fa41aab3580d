"""A PostgreSQL of our own: a cluster in a folder of its own, a socket in it and no port, asked through psql.

PostgreSQL refuses to run as root; then it runs as the user ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.engines.relations import Answer, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = ("initdb", "postgres", "psql")
MISSING = "PostgreSQL is missing: initdb, postgres and psql on the PATH or in /usr/lib/postgresql/*/bin"
NO_USER = "PostgreSQL does not run as root, and there is neither a user postgres nor nobody"
SETTINGS = {
    "listen_addresses": "", "fsync": "off", "shared_buffers": "16MB", "max_connections": "4", "jit": "off",
}  # fmt: skip
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def find() -> Path | None:
    """Folder of the programs, the newest, or None."""
    beside = shutil.which("initdb")
    folders = [Path(beside).parent] if beside else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: p.parts[-2], reverse=True)
    return next((folder for folder in folders if all((folder / name).is_file() for name in PROGRAMS)), None)


def other_user() -> str | None:
    """Name of a user that is not root, or None."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


class Postgres:
    """A running server; a context manager that leaves nothing behind.

    Parameters
    ----------
    programs : Path
        As `find` gives it.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._as: dict[str, Any] = {}
        # The path of a socket may have some 100 characters, and the folders of pytest are not for other users.
        self._folder = Path(tempfile.mkdtemp(prefix="pg"))
        if os.geteuid() == 0:
            user = pwd.getpwnam(other_user() or "nobody")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def __enter__(self) -> Self:
        data = self._folder / "data"
        options = ["-U", "auditor", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D", str(data)]
        self._run("initdb", *options, **self._as)
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("w") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", data, "-k", self._folder, *settings],
                cwd=self._folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        for _ in range(600):
            if self._psql("SELECT 1;").returncode == 0:
                return self
            time.sleep(0.1)
        said = (self._folder / "log").read_text()
        self.__exit__()
        raise RuntimeError(said)

    def __exit__(self, *_: object) -> None:
        self._server.send_signal(signal.SIGINT)  # ends the sessions that are open, too
        self._server.wait(timeout=60)
        shutil.rmtree(self._folder)

    def ask(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answers to some jobs, each in a transaction that is rolled back."""
        done = self._psql("\n".join(_script(number, job) for number, job in enumerate(jobs)))
        printed, errors = (_parts(text) for text in (done.stdout, done.stderr))
        assert len(printed) == len(errors) == len(jobs), done.stderr
        return [
            Answer([json.loads(line) for line in rows.splitlines()], error.strip() or None)
            for rows, error in zip(printed, errors, strict=True)
        ]

    def run(self, script: str, folder: Path) -> str:
        """Give what psql prints for a script that is run in a folder."""
        done = self._psql(script, plain=False, cwd=folder, check=True)
        assert not done.stderr, done.stderr
        return done.stdout

    def _psql(self, script: str, *, plain: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        options = ["-X", "-q", *(("-A", "-t") if plain else ())]
        where = ["-h", str(self._folder), "-U", "auditor", "-d", "postgres"]
        return self._run("psql", *options, *where, **{"input": script, "check": False} | more)

    def _run(self, program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        usual: dict[str, Any] = {"check": True, "cwd": self._folder, "env": ENVIRONMENT, "timeout": 120}
        usual |= {"capture_output": True, "text": True}
        return subprocess.run([self._programs / program, *arguments], **usual | more)


def _script(number: int, job: Job) -> str:
    """Give the script of one job; both outputs get a line that parts it from the job before."""
    views = [f'CREATE TEMP VIEW "{name}" AS {select};' for name, select in job.views.items()]
    query = f"SELECT row_to_json(answer) FROM (\n{job.query}\n) AS answer;"
    return "\n".join([f"\\echo @{number}", f"\\warn @{number}", "BEGIN;", *views, query, "ROLLBACK;"])


def _parts(text: str) -> list[str]:
    return re.split(r"^@\d+\n", text, flags=re.MULTILINE)[1:]
