"""Debian in a root of its own: what `make deb` makes is installed there, under systemd as PID 1.

The root is made once, by mmdebstrap of Debian's own packages, and kept in the cache; each test has
a layer of its own above it. The packages are assembled once of the distributions of `wheels`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from deploy import deb, lock
from deploy.outcome import Unbuildable, Undownloadable
from tests.testbed import packages, programs, wheels, workspace
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.processes import Child, signal_inside, tail

TITLE = "a root of Debian and liqod's package"
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "lintian": "lintian",
}
"""Programs that make the root and judge the package, and their packages."""
INCLUDED = (
    *("systemd", "systemd-sysv", "libnss-systemd", "dbus", "sudo"),
    *("python3", "python3-venv", "procps", "nftables"),
)
NEWER = "999"
"""The version of the second package."""
BOOT = 120.0
MOUNT = "liqod-test-"
"""How the mount of a root is named; the run's process id follows."""
EPOCH = 1_700_000_000
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
"""Has a machine end with its run: what systemd-nspawn has started outlives a killed one."""


class Debian(NamedTuple):
    """The folder of a root, the folder of packages, and that of the wheels that pip may ask for."""

    root: Path
    built: Path
    wheels: Path

    @property
    def package(self) -> Path:
        """The package."""
        return self.built / deb.chosen().file

    @property
    def again(self) -> Path:
        """The same package, of distributions that were built of a copy."""
        return self.built / "again" / deb.chosen().file

    @property
    def newer(self) -> Path:
        """A package of the same files with a later version."""
        return self.built / deb.chosen()._replace(version=NEWER).file


def find() -> Debian:
    """The root and the packages, made where they are not there."""
    if os.geteuid() != 0:
        raise Unavailable("a root of Debian takes root")
    packages.provide(PROGRAMS)
    try:
        release = deb.chosen().release
    except Unbuildable as reason:
        raise Unavailable(str(reason)) from reason
    root = programs.cache() / f"debian-{release}-{_digest(*INCLUDED)}"
    programs.builds.make(root, TITLE, partial(_make_root, root, release))
    installation = wheels.find()
    sources = [*Path(deb.__file__).parent.glob("*.py"), *deb.WRITTEN.iterdir(), lock.LOCK]
    sources += sorted(deb.UNITS.iterdir())
    texts = [each.read_text() for each in sorted(sources)]
    built = programs.cache() / f"deb-{_digest(installation.folder.name, *texts)}"
    programs.builds.make(built, TITLE, partial(_assemble, installation, built))
    project = (lock.ROOT / "pyproject.toml").read_text()
    house = programs.cache() / f"wheelhouse-{release}-{_digest(lock.LOCK.read_text(), project)}"
    programs.builds.make(house, TITLE, partial(_gather, house))
    return Debian(root, built, house)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make_root(root: Path, release: str) -> None:
    programs.say(f"making a root of Debian's {release} (a minute)")
    scratch = root.with_name(f".{root.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    wanted = ["--variant=minbase", f"--include={','.join(INCLUDED)}", "--quiet"]
    command = ["mmdebstrap", *wanted, release, str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"mmdebstrap makes no root: {done.stderr.strip()[-500:]}")
    scratch.rename(root)


def _assemble(installation: wheels.Installation, built: Path) -> None:
    programs.say("assembling Debian packages")
    wheels.take_away_unused("deb-*")
    scratch = built.with_name(f".{built.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "again").mkdir(parents=True)
    package = deb.chosen()
    target = lock.Target(package.python, deb.ARCHITECTURES[package.architecture])
    try:
        locked = lock.wheels(target)
    except Undownloadable as reason:
        raise Unavailable(str(reason)) from reason
    newer = package._replace(version=NEWER)
    for made, folder, each in (
        (package, installation.built, scratch),
        (package, installation.again, scratch / "again"),
        (newer, installation.built, scratch),
    ):
        (own,) = folder.glob("liqod-*.whl")
        (each / made.file).write_bytes(deb.assemble(made, own, locked, EPOCH))
    scratch.rename(built)


def _gather(house: Path) -> None:
    """What pip needs to install a checkout with all its extras, and to build it."""
    programs.say("gathering the wheels that liqod is installed with")
    scratch = house.with_name(f".{house.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    package = deb.chosen()
    target = lock.Target(package.python, deb.ARCHITECTURES[package.architecture])
    try:
        locked = lock.wheels(target)
    except Undownloadable as reason:
        raise Unavailable(str(reason)) from reason
    shutil.copytree(locked[0].parent, scratch)
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())
    asked = [
        *project["build-system"]["requires"],
        *project["project"]["optional-dependencies"]["web"],
    ]
    folders = (f"--dest={scratch}", f"--find-links={scratch}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", *folders, *target.options()]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"pip downloads no wheels: {done.stderr.strip()[-500:]}")
    scratch.rename(house)


class Machine:
    """A machine of Debian's that has booted in namespaces.

    Args:
        root: its files.
        init: its PID 1, as this machine numbers it.
    """

    def __init__(self, root: Path, init: int) -> None:
        self.root = root
        self._init = init

    def enter(self, *words: str) -> list[str]:
        """The command line of a program that runs there."""
        return ["nsenter", f"--target={self._init}", "--all", *words]

    def run(self, *words: str) -> str:
        """The output of a program there; raises `TestbedError` where it fails."""
        return _run(self.enter(*words))

    def shows(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.properties(unit, name)[name]

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        """Properties of a unit, all of one moment."""
        lines = self.run("systemctl", "show", f"--property={','.join(names)}", unit).splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def log(self, unit: str) -> str:
        """What a unit has logged."""
        return self.run("journalctl", "--unit", unit, "--output=cat", "--no-pager")


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        # A signal that a program there sends to its own group stays away from the tests.
        start_new_session=True,
    )
    if done.returncode != 0:
        raise TestbedError(f"{' '.join(command)}: {done.returncode}: {done.stdout.strip()}")
    return done.stdout


@contextmanager
def layered(debian: Debian, folder: Path) -> Iterator[Path]:
    """A root that a test may change, in which its packages are in /packages.

    Args:
        debian: the root below.
        folder: where what is changed lies.
    """
    _sweep()
    parts = {name: folder / name for name in ("upperdir", "workdir", "root")}
    for each in parts.values():
        each.mkdir()
    options = [f"{name}={parts[name]}" for name in ("upperdir", "workdir")]
    named = ",".join([f"lowerdir={debian.root}", *options])
    _run(["mount", "-t", "overlay", f"{MOUNT}{os.getpid()}", "-o", named, str(parts["root"])])
    try:
        (parts["root"] / "packages").mkdir()
        for each in (debian.package, debian.newer):
            shutil.copy(each, parts["root"] / "packages")
        yield parts["root"]
    finally:
        subprocess.run(["umount", "--lazy", str(parts["root"])], check=False)


def _sweep() -> None:
    """Takes away the mounts of test runs that were killed; their machines went with them."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, place, *_ = line.split()
        if workspace.is_of_dead_run(source, MOUNT):
            subprocess.run(["umount", "--lazy", place], check=False)


@contextmanager
def booted(debian: Debian, folder: Path, *options: str) -> Iterator[Machine]:
    """A machine with such a root, from its boot to its end.

    Args:
        debian: the root.
        folder: for what is changed in it.
        options: further ones of systemd-nspawn.
    """
    with layered(debian, folder) as root:
        name = f"liqod-{secrets.token_hex(4)}"
        words = ["--quiet", "--register=no", "--keep-unit", f"--machine={name}", "--boot"]
        nspawn = ["systemd-nspawn", *words, *options, f"--directory={root}"]
        process = Child(name, [*ALONE, *nspawn], folder / "boot.log")
        try:
            yield _wait(process, root)
        finally:
            signal_inside(process, signal.SIGTERM)
            try:
                process.wait(30)
            except TestbedError:
                process.kill()


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(each) for each in text.split()]


def _wait(process: Child, root: Path) -> Machine:
    deadline = time.monotonic() + BOOT
    while process.alive and time.monotonic() < deadline:
        for child in itertools.chain.from_iterable(map(_children, _children(process.pid))):
            machine = Machine(root, child)
            try:
                machine.run("systemctl", "is-active", "multi-user.target")
            except TestbedError:
                continue
            return machine
        time.sleep(0.2)
    raise Unavailable(f"systemd does not boot in namespaces here: {tail(process.log, 5)}")
