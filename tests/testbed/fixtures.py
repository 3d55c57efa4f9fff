"""The fixtures that hand real clusters to tests, and what happens where there can be none.

A test marked `cluster`, `node` or `netns` is skipped with the reason on a machine that cannot run
it; with `TESTBED_REQUIRE=1` that skip is a failure. Control planes are shared by all files of a
worker that need them: a test keeps to namespaces of its own, or takes a fresh plane from
`new_control_plane`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from tests.testbed import (
    beforehand,
    debian,
    evidence,
    former,
    netns,
    node,
    ownimages,
    packages,
    programs,
    wheels,
)
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable

NAMES = ("rome", "milan")
MARKS = ("cluster", "node", "viewer", "netns")
REQUIRE = "TESTBED_REQUIRE"
"""The variable that a run has where no test may be skipped."""
BUILT: dict[str, Callable[[], object]] = {
    "wireguard": programs.find_wireguard,
    "coredns": programs.find_coredns,
    "conncheck": programs.find_conncheck,
    "liqo_endpoints": programs.find_liqo_endpoints,
    "newest_helm": programs.find_newest_helm,
    "helms": programs.find_helms,
    "kubeconform_program": programs.find_kubeconform,
    "kubectl": programs.find,
    "installation": wheels.find,
    "debian": debian.find,
    "version_before": former.find,
    "own_images": ownimages.find,
}
"""Builders of the programs that fixtures hand over, by the fixture's name."""
FAILED = pytest.StashKey[bool]()
"""On a test's item once its set-up or its body has failed: what it used is not fit for another."""


def required() -> bool:
    """True if a real cluster that cannot be had is a failure instead of a skip."""
    return os.environ.get(REQUIRE) == "1"


def give_up(reason: Unavailable) -> NoReturn:
    """Skips the test that needs something real, or fails it where that is required."""
    if required():
        pytest.fail(f"required here, and not to be had: {reason}", pytrace=False)
    pytest.skip(f"not to be had: {reason}")


class ControlPlanes:
    """Up to two control planes, started when first asked for and kept for all files in a row that
    need them."""

    def __init__(self) -> None:
        self._planes: list[ControlPlane] = []

    def take(self, count: int) -> list[ControlPlane]:
        """The first `count` planes (at most two); those that are missing start side by side."""
        if count > len(NAMES):
            raise ValueError(f"there are {len(NAMES)} shared control planes, not {count}")
        try:
            missing = [ControlPlane(name) for name in NAMES[len(self._planes) : count]]
        except Unavailable as reason:
            give_up(reason)
        self._planes += missing
        with evidence.owned_by("control_planes"):
            start_all(missing)
        return self._planes[:count]

    def destroy(self) -> None:
        """Ends them all."""
        for plane in self._planes:
            evidence.remove(plane.name, plane.logs)
            plane.destroy()


def start_all(planes: list[ControlPlane]) -> None:
    """Starts control planes side by side; if one fails, all of them are destroyed."""
    if not planes:
        return
    with ThreadPoolExecutor(len(planes)) as pool:
        starting = [pool.submit(plane.start) for plane in planes]
    try:
        for start, plane in zip(starting, planes, strict=True):
            start.result()
            evidence.add(plane.name, plane.logs)
    except BaseException:
        for plane in planes:
            plane.destroy()
        raise


@pytest.fixture(scope="session")
def control_planes() -> Iterator[ControlPlanes]:
    """`control_planes.take(n)` gives n control planes that this run's tests share."""
    planes = ControlPlanes()
    yield planes
    planes.destroy()


@pytest.fixture(scope="session")
def control_plane(control_planes: ControlPlanes) -> ControlPlane:
    """One shared control plane."""
    return control_planes.take(1)[0]


@pytest.fixture
def new_control_plane() -> Iterator[Callable[..., ControlPlane]]:
    """`new_control_plane(name, settings)` starts a fresh one that ends with the test."""
    made: list[ControlPlane] = []

    def make(name: str = "fresh", settings: Settings | None = None) -> ControlPlane:
        try:
            plane = ControlPlane(name, settings)
        except Unavailable as reason:
            give_up(reason)
        made.append(plane)
        start_all([plane])
        return plane

    yield make
    for plane in made:
        evidence.remove(plane.name, plane.logs)
        plane.destroy()


@pytest.fixture
def networks() -> Iterator[netns.Networks]:
    """Network namespaces, gone when the test ends."""
    try:
        made = netns.Networks()
    except Unavailable as reason:
        give_up(reason)
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def viewers() -> None:
    """A real terminal and a real browser are there."""
    try:
        packages.provide(packages.VIEWERS)
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def wireguard() -> str:
    """The newest userspace WireGuard."""
    return _built("wireguard")


@pytest.fixture(scope="session")
def coredns() -> str:
    """A name server."""
    return _built("coredns")


@pytest.fixture(scope="session")
def conncheck() -> str:
    """The check of Liqo's gateways, built from Liqo's own module."""
    return _built("conncheck")


@pytest.fixture(scope="session")
def liqo_endpoints() -> str:
    """What makes a consumer's EndpointSlices at a Liqo provider, built from Liqo's own module."""
    return _built("liqo_endpoints")


@pytest.fixture(scope="session")
def newest_helm() -> str:
    """Helm of the newest major version."""
    return _built("newest_helm")


@pytest.fixture(scope="session")
def helms() -> dict[int, str]:
    """Helm, by its major version."""
    try:
        return dict(zip(programs.HELMS, map(str, programs.find_helms()), strict=True))
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def kubeconform_program() -> str:
    """kubeconform, which checks manifests against schemas."""
    return _built("kubeconform_program")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """kubectl, of the minor that the tests are for."""
    try:
        return programs.find().path("kubectl")
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def installation() -> wheels.Installation:
    """Both distributions, and an environment that they are installed into."""
    try:
        return wheels.find()
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def version_before() -> Path:
    """The folder of the version before this one, which a copy without git cannot have."""
    try:
        return former.find()
    except Unavailable as reason:
        pytest.skip(f"not to be had: {reason}")


@pytest.fixture(scope="session", name="debian")
def a_debian() -> debian.Debian:
    """A root of Debian's, and liqod's packages for it."""
    try:
        return debian.find()
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def own_images() -> ownimages.Images:
    """liqod's own images."""
    try:
        return ownimages.find()
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def readers() -> None:
    """The shells and the reader of man pages are there."""
    try:
        packages.provide(packages.READERS)
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture(scope="session")
def packagers() -> None:
    """The programs that install from wheels and push images are there."""
    try:
        packages.provide(packages.PACKAGERS)
    except Unavailable as reason:
        give_up(reason)


def _built(name: str) -> str:
    try:
        return str(BUILT[name]())
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A new namespace on the shared control plane, deleted when the test ends."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.api.raw("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def real_node_cluster() -> Iterator[node.NodeCluster]:
    """A whole cluster with a real kubelet, shared by this run's tests."""
    with whole_cluster("naples") as made:
        yield made


@contextmanager
def whole_cluster(name: str) -> Iterator[node.NodeCluster]:
    """A whole cluster with a real kubelet, for the length of the block."""
    try:
        made = node.NodeCluster(name)
    except Unavailable as reason:
        give_up(reason)
    evidence.add(made.name, made.logs)
    try:
        made.start()
        yield made
    finally:
        evidence.remove(made.name, made.logs)
        made.destroy()


def prepare(items: list[pytest.Item]) -> None:
    """Builds before the first test what the selected ones need, so that no test's time is up by it.

    From then on nothing is built (`programs.Builds.close`). A program that cannot be had stops
    nothing here but prints a line: each test that needs it gives the reason.
    """
    if not items:
        return
    marks = {mark for item in items for mark in MARKS if item.get_closest_marker(mark)}
    used = {name for item in items for name in getattr(item, "fixturenames", ())}
    wanted = [build for name, build in BUILT.items() if name in used]
    for name, needed in (("readers", packages.READERS), ("packagers", packages.PACKAGERS)):
        if name in used:
            wanted.append(partial(packages.provide, needed))
    if "viewer" in marks:
        wanted.append(lambda: packages.provide(packages.VIEWERS))
    if marks - {"viewer", "netns"}:
        wanted.append(programs.find)
    if "node" in marks:
        wanted += [*programs.beside([programs.wanted_minor()]), _prepare_node]
    for problem in beforehand.get(wanted):
        programs.say(problem.splitlines()[0])
    programs.builds.close()


def _prepare_node() -> None:
    with programs.alone("node.lock", "what a real node needs"):
        node.prepare()


def judge(item: pytest.Item, report: pytest.TestReport) -> None:
    """Turns a skipped real-cluster test into a failure where clusters are required, and adds the
    logs of what it uses to a failed one."""
    marked = any(item.get_closest_marker(mark) for mark in MARKS)
    if report.when == "setup":
        item.stash[FAILED] = False  # a second try is judged by itself
    if report.skipped and marked and required() and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped where real clusters are required: {report.longrepr}"
        )
    if report.failed and marked:
        item.stash[FAILED] = True
        report.sections.extend(evidence.collect(getattr(item, "fixturenames", ())))
