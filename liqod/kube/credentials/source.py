"""Keeps credentials valid: read again when their files change, issued again when they expire.

A long-running daemon outlives tokens and certificates. Files are read every few seconds,
when a request needs them; plugins are run in a process of their own, once, when their credentials
are about to expire or the server refuses them.
"""

import contextlib
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
import trio

from liqod.errors import ConfigError, LiqodError, Unauthorized
from liqod.kube.credentials import kubeconfig
from liqod.kube.credentials.credentials import Credentials, ExecPlugin, reload

CHECK_EVERY = 5.0
"""Seconds between reads of the files."""
EXPIRES_SOON = 60.0
"""Seconds before their expiry at which a plugin's credentials are fetched again."""
PLUGIN_DEADLINE = 60.0
"""Seconds that a plugin may take."""
PLUGIN_PAUSE = 5.0
"""Seconds after a plugin failed before it is run again."""

log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int, int], ...]


class IssuedCredentials(msgspec.Struct, frozen=True):
    """The credentials that a plugin issued.

    Attributes:
        token: bearer token.
        client_cert: PEM.
        client_key: PEM.
        expires: Unix time, None if not given.
    """

    token: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    expires: float | None = None

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Issued(expires={self.expires})"


async def run_plugin(plugin: ExecPlugin) -> IssuedCredentials:
    """Run a plugin, through the official Kubernetes package in a short-lived process.

    Raises:
        Unauthorized: the plugin failed or took too long; the message is the plugin's.
    """
    question = msgspec.json.encode({"document": plugin.document, "directory": plugin.directory})
    with trio.move_on_after(PLUGIN_DEADLINE):
        done = await trio.run_process(
            [sys.executable, "-m", "liqod.kube.credentials.exec_plugin"],
            stdin=question,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            start_new_session=True,
            deliver_cancel=_kill_all,
        )
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        if done.returncode != 0:
            raise Unauthorized(f"credential plugin {plugin.name} failed: {said}")
        try:
            return msgspec.json.decode(done.stdout, type=IssuedCredentials)
        except msgspec.DecodeError as error:
            raise Unauthorized(f"credential plugin {plugin.name} gave nonsense") from error
    raise Unauthorized(f"credential plugin {plugin.name} took more than {PLUGIN_DEADLINE:.0f} s")


async def _kill_all(process: trio.Process) -> None:
    """End the process and the plugin that it runs."""
    await trio.lowlevel.checkpoint()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class CredentialSource:
    """The current credentials, refreshed as necessary.

    Args:
        credentials: the first ones; if they have an origin, its files are watched.
        ask: runs a plugin; tests pass their own.
    """

    def __init__(
        self,
        credentials: Credentials,
        ask: Callable[[ExecPlugin], Awaitable[IssuedCredentials]] = run_plugin,
    ) -> None:
        self._fetch = ask
        self._lock = trio.Lock()
        self._failure: LiqodError | None = None
        self._failed_at = -math.inf
        self.replace(credentials)

    def replace(self, credentials: Credentials) -> None:
        """Replace the credentials."""
        self._given = credentials
        self._issued: IssuedCredentials | None = None
        self._stamp = _stamp(self._files())
        self._checked = -math.inf
        self._now = self._resolve()

    def peek(self) -> Credentials:
        """The latest credentials, without reading files or running plugins."""
        return self._now

    async def current(self) -> Credentials:
        """The credentials to use now.

        Raises Unauthorized or ConfigError if a plugin does not issue any.
        """
        self._check()
        if self._given.exec is not None and self._ends_within(EXPIRES_SOON):
            try:
                await self._refresh(self._issued)
            except LiqodError:
                if self._ends_within(0):
                    raise
        return self._now

    async def refused(self, used: Credentials) -> bool:
        """Handle a 401 for these credentials; True if there are others to try now."""
        self._checked = -math.inf
        before = self._issued
        self._check()
        if self._now == used and self._given.exec is not None:
            await self._refresh(before)
        return self._now != used

    def _ends_within(self, seconds: float) -> bool:
        """True if the plugin's credentials expire by then, or it has issued none yet."""
        issued = self._issued
        if issued is None:
            return True
        return issued.expires is not None and issued.expires - time.time() < seconds

    async def _refresh(self, before: IssuedCredentials | None) -> None:
        async with self._lock:
            plugin = self._given.exec
            if plugin is None or self._issued is not before:
                return  # another task has just done it
            if self._failure and trio.current_time() - self._failed_at < PLUGIN_PAUSE:
                raise type(self._failure)(str(self._failure))
            try:
                self._issued = await self._fetch(plugin)
            except LiqodError as error:
                self._failure, self._failed_at = error, trio.current_time()
                raise
            self._now = self._resolve()

    def _files(self) -> tuple[str, ...]:
        given = self._given
        named = given.origin.files if given.origin else ()
        return (*named, given.token_file) if given.token_file else named

    def _check(self) -> None:
        """Read the files again if they changed; keep the old credentials if they are invalid."""
        files = self._files()
        now = trio.current_time()
        if not files or now - self._checked < CHECK_EVERY:
            return
        self._checked = now
        stamp = _stamp(files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            if self._given.origin is not None:
                self._given = reload(self._given.origin)
            self._now = self._resolve()
        except ConfigError as error:
            log.warning("changed credentials are not used", extra={"reason": str(error)})
            return
        self._stamp = _stamp(self._files())
        log.info("credentials reloaded", extra={"server": self._now.server})

    def _resolve(self) -> Credentials:
        given, issued = self._given, self._issued
        if given.token_file is not None:
            content = kubeconfig.read_file(given.token_file, "the token")
            given = msgspec.structs.replace(given, token=content.decode("ascii", "replace").strip())
        if issued is not None:
            given = msgspec.structs.replace(
                given,
                token=issued.token or given.token,
                client_cert=_bytes(issued.client_cert) or given.client_cert,
                client_key=_bytes(issued.client_key) or given.client_key,
            )
        return given


def _bytes(text: str | None) -> bytes | None:
    return text.encode() if text else None


def _stamp(files: tuple[str, ...]) -> Stamp:
    """A value that changes when a file does: a replaced file has another inode."""
    stamps = []
    for name in files:
        try:
            stat = os.stat(name)
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(stamps)
