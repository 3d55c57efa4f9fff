"""Finds the Kubernetes programs that the test clusters run, or builds them from Go modules.

Kubernetes publishes no package that holds an API server, but it is a Go module: `go/kube` links
etcd, the control plane, kubelet, kube-proxy and kubectl into one binary (8-9 minutes cold on two
cores), `go/coredns` is CoreDNS, `go/metrics-server` metrics-server (three minutes), `go/wireguard`
the userspace WireGuard (half a minute; several times as fast as Debian's), `go/liqoctl` Liqo's
command (four minutes) and, out of the same module, its check of connections, `go/liqoendpoints` its
maker of EndpointSlices (some seconds after that), `go/helm3` and `go/helm4` Helm (some two minutes
each), `go/kubeconform` the check of manifests against schemas (some seconds). The results are kept
outside the checkout under a hash of everything that went in, so a second run finds them. The order
is `KUBEBUILDER_ASSETS`, then the cache (`TESTBED_CACHE`, else `$XDG_CACHE_HOME/liqod/testbed`),
then a build.

Run as `python -m tests.testbed.programs [MINOR ...]` it builds what is missing and prints where it
is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy import lock
from tests.testbed import toolchain
from tests.testbed.errors import Unavailable

MODULES = Path(__file__).parent / "go"
DEFAULT_MINOR = "1.35"
"""The minor that `go/kube/go.mod` builds; `go/kube/<minor>.mod` builds each of the others."""

PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy")
# A cold build takes 8-9 minutes on two idle cores; a shared machine may need several times that.
BUILD_DEADLINE = 3600.0


@dataclass(frozen=True)
class Programs:
    """A folder of programs of one Kubernetes version, e.g. `1.35`."""

    folder: Path
    minor: str

    def path(self, name: str) -> str:
        """The absolute path of one program; raises `Unavailable` where the folder has none."""
        found = self.folder / name
        if not found.exists():
            raise Unavailable(f"there is no {name} in {self.folder}")
        return str(found)

    def __contains__(self, name: str) -> bool:
        return (self.folder / name).exists()


@dataclass(frozen=True)
class Recipe:
    """Sources of one binary: a module's folder, its mod file, linker flags, the names linked to it
    and the package that is built, the folder's own unless another is named.
    """

    title: str
    folder: Path
    modfile: Path
    ldflags: str
    binary: str
    links: tuple[str, ...]
    package: str = "."

    @property
    def go(self) -> tuple[int, int]:
        """The oldest Go version, as (major, minor), that the module accepts."""
        return _go_needed(self.modfile.read_text())

    def digest(self) -> str:
        """Names the binary by all that goes into it."""
        whole = hashlib.sha256()
        sources = (self.folder / "main.go",) if self.package == "." else ()
        for source in (*sources, self.modfile, self.modfile.with_suffix(".sum")):
            whole.update(source.read_bytes())
        whole.update("\0".join((self.ldflags, *self.links)).encode())
        return whole.hexdigest()[:16]


def minors() -> list[str]:
    """Every minor that there is a module for, the default first, then newest first."""
    others = sorted((path.stem for path in (MODULES / "kube").glob("1.*.mod")), reverse=True)
    return [DEFAULT_MINOR, *others]


def wanted_minor() -> str:
    """The minor that the tests of this run use: `TESTBED_VERSION`, else the default."""
    return os.environ.get("TESTBED_VERSION") or DEFAULT_MINOR


def find(minor: str | None = None) -> Programs:
    """The control plane's programs (etcd to kubectl), and those of a node where built here.

    Raises `Unavailable` with the reason where they are neither there nor can be built.
    """
    chosen = minor or wanted_minor()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and chosen == DEFAULT_MINOR:
        programs = Programs(Path(assets), chosen)
        for name in PLANE:
            programs.path(name)
        return programs
    return Programs(builds.provide(_kube(chosen)), chosen)


def find_coredns() -> Path:
    """The CoreDNS program; raises `Unavailable` like `find`."""
    folder = MODULES / "coredns"
    recipe = Recipe("CoreDNS", folder, folder / "go.mod", "-s -w", "coredns", ())
    return builds.provide(recipe) / "coredns"


def find_metrics_server() -> Path:
    """metrics-server; raises `Unavailable` like `find`."""
    folder = MODULES / "metrics-server"
    package = "sigs.k8s.io/metrics-server/cmd/metrics-server"
    recipe = Recipe(
        "metrics-server", folder, folder / "go.mod", "-s -w", "metrics-server", (), package
    )
    return builds.provide(recipe) / "metrics-server"


def find_wireguard() -> Path:
    """The newest userspace WireGuard, or Debian's `wireguard-go` where it cannot be built.

    Raises `Unavailable` like `find`, where there is neither.
    """
    folder = MODULES / "wireguard"
    package = "golang.zx2c4.com/wireguard"
    recipe = Recipe("WireGuard", folder, folder / "go.mod", "-s -w", "wireguard", (), package)
    try:
        return builds.provide(recipe) / "wireguard"
    except Unavailable:
        older = shutil.which("wireguard-go")
        if older is None:
            raise
        return Path(older)


def find_liqoctl() -> Path:
    """Liqo's command, of the newest release; raises `Unavailable` like `find`."""
    folder = MODULES / "liqoctl"
    module = "github.com/liqotech/liqo"
    modfile = folder / "go.mod"
    version = _required(modfile.read_text(), module)
    flags = f"-s -w -X {module}/pkg/liqoctl/version.LiqoctlVersion={version}"
    package = f"{module}/cmd/liqoctl"
    recipe = Recipe("liqoctl", folder, modfile, flags, "liqoctl", (), package)
    return builds.provide(recipe) / "liqoctl"


def find_conncheck() -> Path:
    """Liqo's own check of connections, by itself; raises `Unavailable` like `find`."""
    folder = MODULES / "liqoctl"
    recipe = Recipe(
        "Liqo's check of connections", folder, folder / "go.mod", "-s -w", "conncheck", ()
    )
    return builds.provide(recipe) / "conncheck"


def find_liqo_endpoints() -> Path:
    """Liqo's maker of a consumer's EndpointSlices, by itself; raises `Unavailable` like `find`."""
    folder = MODULES / "liqoendpoints"
    title = "Liqo's maker of EndpointSlices"
    recipe = Recipe(title, folder, folder / "go.mod", "-s -w", "liqoendpoints", ())
    return builds.provide(recipe) / "liqoendpoints"


def find_liqos() -> tuple[Path, ...]:
    """All three, one after the other: each takes from those before what all are made of."""
    return find_liqoctl(), find_conncheck(), find_liqo_endpoints()


HELMS = (3, 4)
"""The major versions of Helm that there is a module for."""


def find_helm(major: int) -> Path:
    """The newest Helm of a major version; raises `Unavailable` like `find`."""
    folder = MODULES / f"helm{major}"
    modfile = folder / "go.mod"
    module = f"helm.sh/helm/v{major}"
    version = _required(modfile.read_text(), module)
    flags = f"-s -w -X {module}/internal/version.version={version}"
    if major == 3:
        # Without it Helm 3 renders for Kubernetes 1.20 where it asks no cluster.
        minor = _required(modfile.read_text(), "k8s.io/client-go").split(".")[1]
        flags += f" -X {module}/pkg/chartutil.k8sVersionMinor={minor}"
        flags += f" -X {module}/pkg/lint/rules.k8sVersionMinor={minor}"
    package = f"{module}/cmd/helm"
    recipe = Recipe(f"Helm {version}", folder, modfile, flags, f"helm{major}", (), package)
    return builds.provide(recipe) / f"helm{major}"


def find_newest_helm() -> Path:
    """Helm as a newcomer gets it; raises `Unavailable` like `find`."""
    return find_helm(max(HELMS))


def find_helms() -> tuple[Path, ...]:
    """Both, one after the other: the second takes from the first what both are made of."""
    return tuple(map(find_helm, HELMS))


def find_kubeconform() -> Path:
    """kubeconform; raises `Unavailable` like `find`."""
    folder = MODULES / "kubeconform"
    package = "github.com/yannh/kubeconform/cmd/kubeconform"
    recipe = Recipe("kubeconform", folder, folder / "go.mod", "-s -w", "kubeconform", (), package)
    return builds.provide(recipe) / "kubeconform"


def beside(minors: Sequence[str]) -> list[Callable[[], object]]:
    """All that tests run beside each other, for the given minors; none waits for another."""
    planes = [partial(find, minor) for minor in minors]
    return [*planes, find_coredns, find_wireguard, find_metrics_server, find_liqos]


def cache() -> Path:
    """The folder, outside the checkout, that keeps what was built."""
    chosen = os.environ.get("TESTBED_CACHE")
    if chosen:
        return Path(chosen)
    return lock.cache() / "testbed"


def _kube(minor: str) -> Recipe:
    folder = MODULES / "kube"
    modfile = folder / ("go.mod" if minor == DEFAULT_MINOR else f"{minor}.mod")
    if not modfile.exists():
        raise Unavailable(f"Kubernetes {minor} is none of {', '.join(minors())}")
    version = _required(modfile.read_text(), "k8s.io/kubernetes")
    major, number = minor.split(".")
    # Without these the programs call themselves v0.0.0-master, and the API server negotiates
    # features by it.
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": number}
    flags = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items()]
    links = (*PLANE, *NODE)
    return Recipe(
        f"Kubernetes {version}", folder, modfile, " ".join(("-s -w", *flags)), "kube", links
    )


def _required(modfile: str, module: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", modfile, re.MULTILINE)
    if found is None:
        raise Unavailable(f"the module file requires no {module}")
    return found[1]


def _go_needed(modfile: str) -> tuple[int, int]:
    found = re.search(r"^go (\d+)\.(\d+)", modfile, re.MULTILINE)
    if found is None:
        raise Unavailable("the module file names no Go version")
    return int(found[1]), int(found[2])


@contextmanager
def alone(name: str, title: str) -> Iterator[None]:
    """Keeps two builders of the same thing apart; the second waits and finds the first's result."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process prepares {title}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, target: Path) -> None:
    with alone("go.lock", "a Go toolchain"):
        go = toolchain.find(recipe.go, cache())
    say(f"building {recipe.title} with {go} into {target} (once; up to ten minutes the first time)")
    started = time.monotonic()
    # A rename within one folder is atomic: a reader sees all programs or none.
    with tempfile.TemporaryDirectory(prefix=f".{recipe.binary}-", dir=target.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        arguments = [
            "build",
            "-trimpath",
            "-buildvcs=false",
            f"-ldflags={recipe.ldflags}",
            "-o",
            str(made / recipe.binary),
        ]
        if recipe.modfile.name != "go.mod":
            arguments.append(f"-modfile={recipe.modfile.name}")
        _run([str(go), *arguments, recipe.package], recipe)
        for name in recipe.links:
            (made / name).symlink_to(recipe.binary)
        made.rename(target)
    say(f"built {recipe.title} in {time.monotonic() - started:.0f} s")


def _run(command: list[str], recipe: Recipe) -> None:
    """Runs the build with a line of progress twice a minute; on failure raises with its end."""
    deadline = time.monotonic() + BUILD_DEADLINE
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=recipe.folder,
            env=toolchain.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"building {recipe.title} took over {BUILD_DEADLINE:.0f} s"
                        ) from None
                    say(f"  still building {recipe.title}; {_progress(output.fileno())}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code != 0:
            output.seek(0)
            end = "".join(output.readlines()[-15:])
            raise Unavailable(f"{recipe.title} could not be built ({' '.join(command)}):\n{end}")


def _progress(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    last = os.pread(descriptor, 4096, max(0, size - 4096)).decode(errors="replace").splitlines()
    return last[-1] if last else "compiling"


class Builds:
    """The builds of one process: no program is tried twice, and none once tests have begun.

    Args:
        build: builds the programs of a recipe into a folder.
    """

    def __init__(self, build: Callable[[Recipe, Path], None]) -> None:
        self._build = build
        self._closed = False
        self._refused: dict[Path, Unavailable] = {}

    def close(self) -> None:
        """From now on nothing is built: the tests have begun, and each has its time."""
        self._closed = True

    def provide(self, recipe: Recipe) -> Path:
        """The folder that holds a recipe's programs, built first if they are not there."""
        target = cache() / f"{recipe.binary}-{recipe.digest()}"
        self.make(target, recipe.title, lambda: self._build(recipe, target))
        return target

    def make(self, target: Path, title: str, make: Callable[[], None]) -> None:
        """Make what a file or folder of the cache shows to be there, where it is not."""
        if target.exists():
            return
        if target in self._refused:
            raise self._refused[target]
        if self._closed:
            raise Unavailable(f"{title} was not built before the tests began")
        if os.environ.get("TESTBED_BUILD") == "never":
            raise Unavailable(f"{title} is not built yet and TESTBED_BUILD=never")
        lock = "-".join(target.relative_to(cache()).parts)
        with alone(f"{lock}.lock", title):
            if not target.exists():
                try:
                    make()
                except Unavailable as reason:
                    self._refused[target] = reason
                    raise


def say(line: str) -> None:
    """One line of progress, past pytest's capture: a silent ten minutes looks like a hang."""
    print(f"testbed: {line}", file=sys.__stderr__ or sys.stderr, flush=True)


builds = Builds(_build)
"""Those of this process."""


def main(arguments: list[str]) -> int:
    """Builds the programs of the given minors (`all` for each) and prints their folders."""
    chosen = minors() if "all" in arguments else arguments or [wanted_minor()]
    wanted = beside(chosen)
    try:
        with ThreadPoolExecutor(len(wanted)) as threads:
            for found in threads.map(lambda step: step(), wanted):
                for each in found if isinstance(found, tuple) else (found,):
                    print(each.folder if isinstance(each, Programs) else each)
    except Unavailable as reason:
        print(f"testbed: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
