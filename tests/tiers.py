"""Tiers: slow tests that run where what they depend on has changed.

`make test` has the tests of a tier where the hash of all that it depends on is not the one in the
tier's file. Every run that passes them, with no test skipped, writes that file, which is committed
along with the change: so a machine that has never seen the project knows what was run. Where a tier
is left out, the run says so. `make test-NAME` runs it whatever is written there.

`RELEASE`, tests marked `release`, tries what is released: the wheels, the package, the chart and
the pages on it, the images, the example of a repository. In every run the page of the package is
walked, and `node/test_pods.py` has the images in clusters.

`NETWORK`, tests marked `network`, tries the machine's side of joined networks, `liqod node` and
`liqod tunnel`, on a real kernel, under faults and in every order; and the daemons that order these,
on embedded clusters. It depends on:

- all that these programs, the daemon's part of joined networks, and the backends of tunnels import,
  by the import graph;
- how the daemon drives them: it starts, leads and ends, begins and ends a peer (`daemon.py`,
  `leader.py`, `peertask.py`, `peers`, `shutdown.py`), finds its own ranges (`cluster`), joins and
  leaves (`procedures/network*.py`), and judges what is wrong (`plugins/checks/network.py`);
- what they run as and in: units, workloads of an installation, locked packages;
- its tests, what these stand on below `tests` by the import graph, and embedded clusters.

Whole daemons take part in its tests, with what else is in them: borrowing, lending, reflection, the
handshake, Services of the set, the inspector. None of these orders the machine, and the tier would
always be due with them. A change of theirs that breaks networks is observed by tests of every run:

- `netns/test_joined_clusters.py`: networks with the same ranges are joined by WireGuard and in a
  websocket, and parted;
- `simulated/network/test_networking.py`: peering joins networks on either side, and its end parts
  them;
- `netns/test_parts.py`: each part of a gateway is killed once, as a process, under traffic;
- `node/test_pods.py`: daemons in pods, peered, whose pods all reach each other;
- `node/peered/test_network.py` and others there: real kubelets with the same ranges on both sides.

Ten more have a room of the daemon each, by lists in `tests/dependences.py` and
`tests/controllerdependences.py`: the room, all that it imports, what its tests import, and what
these stand on. As for networks, what else is in the
daemons of their tests makes none of them due; tests of every run observe it.

`KUBERNETES`, tests marked `kubernetes`, holds embedded clusters, the client and the definitions to
real API servers, has peers of other versions of these, and runs the demo and benchmarks at the
smallest sizes. In every run:

- `contract`: the same contract on embedded clusters;
- `cluster/test_control_plane.py`: real API servers are of the wanted version, sign and count;
- `cluster/test_planned_lists.py` and others of whole daemons there:
  real API servers, by the client and the definitions;
- `simulated/simulator/test_demo.py`: the demo to its own end;
- `simulated/simulator/test_benchmarks.py`: one benchmark.

`CLUSTERSET`, tests marked `clusterset`, tries the Services of the set: under faults, by their
names, at their bounds, and with DNS servers as these are installed. In every run:

- some of `simulated/clusterset/test_sharing.py`: exports, imports and their ends between daemons;
- `cluster/test_shared_services.py`: a Service of two daemons on real API servers;
- `node/peered/test_near.py`: pods call each other by its names, through CoreDNS and a tunnel.

`HANDSHAKE`, tests marked `handshake`, tries how daemons see and meet each other, and their keys:
killed at each message, in every order, with objects that were taken away; with peering users of
Liqo's; keys that are revoked, replaced, stolen. In every run:

- `cluster/test_meeting.py`: two daemons on real API servers meet by a line;
- `simulated/discovery/test_policyrequests.py` and the fast tests of discovery: who is seen is
  asked;
- `simulated/handshake/test_invitations.py`, `simulated/handshake/test_written_beforehand.py`, and
  the fast tests of the handshake: invitations, and answers that were written before the question;
- `simulated/identity/test_secrets.py`, `simulated/identity/test_signing.py` and one test each of
  `simulated/identity/test_rotation.py` and `simulated/identity/test_revoking.py`.

`STATEFUL`, tests marked `stateful`, tries whether what is shown in each fault is true, and whether
daemons that lack a safeguard break an invariant. New things that are shown need a row among its
tests. In every run:

- `stateful/test_truth.py`: for each side one fault of its own, one of its peer, and none;
- `cluster/test_lost_peers.py`: a real API server is frozen, and from a backup;
- `simulated/peering/test_lost_peers.py`: one is stopped, frozen, and gone for ever;
- `stateful/test_stateful.py`, `stateful/test_found.py` and `stateful/test_bad_answers.py`: random
  scripts, those that once found something, and wrong answers of API servers.

`PODS`, tests marked `pods`, tries pods at a peer on real kubelets: how they end and return, what is
changed and measured of them, and pages that are typed there. In every run:

- `node/test_pods.py`: daemons in pods, peered by Liqo's command, and what they leave;
- `node/test_podstreams.py`: logs and exec of a pod, through both API servers, and
  `simulated/consumer/test_podstreams.py`: who may have them;
- `node/test_offload.py`: a Deployment with all it takes along, and a volume.

`PLACEMENT`, tests marked `placement`, tries where pods are placed, by stock schedulers: fragmented
and unlike machines, zones, and a virtual node for each machine; which of them return or move, and
the volumes that they have; peers whose room is scarce, dead, or not as they say; and the cases of
virtual nodes and of the webhook on a real API server. In every run:

- `simulated/consumer/test_nodes.py`, `simulated/consumer/test_webhook.py` and others there: the
  same cases on embedded clusters;
- `simulated/consumer/test_scarce_room.py`, `simulated/consumer/test_node_parts.py`,
  `simulated/consumer/test_make_before_break.py`, `simulated/consumer/test_returns.py`,
  `simulated/consumer/test_claims.py`, `simulated/consumer/test_dead_nodes.py`,
  `simulated/consumer/test_waiting_pods.py` and `simulated/consumer/test_peer_daemon.py`: one long
  test of each, and those that are fast;
- `cluster/test_waiting_pods.py`: pods that find no place leave it to smaller ones;
- `cluster/test_explained.py`: the stock scheduler does what was explained.

`TOP`, tests marked `top`, tries `liqod top` in a real terminal and in a browser. In every run:

- `viewer/test_terminal.py`: peers that come, die and come back are seen in a terminal;
- `simulated/inspect/test_inspector.py`: what it is told, by the daemon's socket;
- the fast tests of `tui`, which compare what each screen shows.

`PLUGINS`, tests marked `plugins`, builds examples and follows the page on writing a plugin, and
tries plugins in daemons that are programs, which these have to end. In every run:

- `simulated/plugins/test_example_plugins.py`: one example;
- `simulated/plugins/test_plugins_in_daemons.py`: a plugin that is not let in;
- `simulated/plugins/test_thirdparty.py` and `simulated/plugins/test_plugin_walls.py`: a plugin of
  each kind in a daemon of the test's own process, and each way in which one breaks.

`INSTALL`, tests marked `install`, tries installations that are refused, broken off, repeated, moved
from Liqo and back, which rights they need, and which they give to daemons and to guests. In every
run:

- `cluster/test_install.py`: on a real API server, all of it can be taken out again;
- `simulated/install/test_install.py`, `simulated/install/test_refusals.py`,
  `simulated/install/test_departure.py` and `simulated/install/test_migration.py`: some of each;
- `simulated/install/test_skew.py`: a consumer that is upgraded and goes back beside its provider;
- `cluster/test_rights.py`: what daemons ask is what they are allowed;
- `cluster/test_hostile_consumer.py`: what guests may not.

`LOAD`, tests marked `load`, tries what very many objects, and peers that attack, cost a daemon and
its other peers, and daemons that are killed and replaced meanwhile. It depends on all that lends,
borrows and reflects. In every run:

- `simulated/provider/test_hostile_consumer.py`, `simulated/provider/test_hostile_bounds.py` and
  `simulated/consumer/test_hostile_provider.py`: what a hostile peer cannot do, and each bound;
- `cluster/test_killed_daemons.py`: a standby takes over from a daemon that is killed;
- `simulated/daemon/test_floods.py`: crowds at each port;
- `simulated/reflection/test_pod_tokens.py`: tokens of some pods.

This module is not below `tests/testbed`: a change of one tier's list makes no other one due.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests import controllerdependences, dependences, networkdependences

ROOT = Path(__file__).parents[1]
LEFTOVERS = ("__pycache__", "*.egg-info", "build", "dist", ".*")
"""Names of files and folders that are in no commit."""


@dataclass(frozen=True)
class Tier:
    """Tests with one mark, and all that they depend on.

    Attributes:
        name: the mark of its tests, too.
        depends_on: files and folders. Other tests try the rest of the program.
        root: the checkout.
    """

    name: str
    depends_on: tuple[str, ...]
    root: Path = ROOT

    @property
    def ran(self) -> Path:
        """The file with the hash of what it has passed with."""
        return self.root / "tests" / f"{self.name}-tier.sha256"

    def is_due(self) -> bool:
        """True if it has not passed with what there is."""
        return not self.ran.exists() or self.ran.read_text().strip() != self.digest()

    def digest(self) -> str:
        """The hash of all that it depends on."""
        made = hashlib.sha256()
        for file in self.files():
            content = file.read_bytes()
            made.update(f"{file.relative_to(self.root)} {len(content)}\n".encode() + content)
        return made.hexdigest()

    def files(self) -> Iterator[Path]:
        """What it depends on, in the order of names."""
        for name in self.depends_on:
            place = self.root / name
            found = sorted(place.rglob("*")) if place.is_dir() else [place]
            yield from (each for each in found if each.is_file() and not self._is_left(each))

    def _is_left(self, file: Path) -> bool:
        # Else the hash would differ by what a machine has done before.
        parts = file.relative_to(self.root).parts
        return any(fnmatch(part, pattern) for part in parts for pattern in LEFTOVERS)


RELEASE = Tier(
    "release",
    (
        "MANIFEST.in",
        "pyproject.toml",
        "deploy",
        "docs/how-to/chart.md",
        "docs/how-to/deb.md",
        "docs/how-to/gitops.md",
        "docs/how-to/image.md",
        "docs/how-to/in-cluster.md",
        "docs/how-to/release.md",
        "docs/how-to/systemd.md",
        "docs/how-to/take-away.md",
        "docs/how-to/upgrades.md",
        "docs/how-to/wheels.md",
        "docs/start/by-chart.md",
        "docs/start/by-package.md",
        "docs/start/demo.md",
        "docs/start/one-application.md",
        "examples/applications",
        "examples/gitops",
        "examples/policies",
        "systemd",
        "liqod/__init__.py",
        "liqod/__main__.py",
        "liqod/cli/app.py",
        "liqod/cli/commands",
        "liqod/cli/completion.py",
        "liqod/install",
        "liqod/node.py",
        "liqod/procedures",
        "liqod/resources",
        "simulator/pyproject.toml",
        "simulator/setup.py",
        "tests/cluster/test_chart.py",
        "tests/cluster/test_chart_machines.py",
        "tests/cluster/test_chart_uninstall.py",
        "tests/cluster/test_chart_upgrade.py",
        "tests/cluster/test_gitops.py",
        "tests/cluster/test_schemas.py",
        "tests/cluster/test_start_pages.py",
        "tests/netns/test_machine_pages.py",
        "tests/netns/test_offline.py",
        "tests/netns/test_package.py",
        "tests/node/test_images.py",
        "tests/node/test_release.py",
        "tests/simulated/install/test_deb.py",
        "tests/simulated/install/test_made_pages.py",
        "tests/simulated/install/test_wheels.py",
        "tests/testbed/checkout.py",
        "tests/testbed/debian.py",
        "tests/testbed/go/helm3",
        "tests/testbed/go/helm4",
        "tests/testbed/go/kubeconform",
        "tests/testbed/jsonschemas.py",
        "tests/testbed/machineshell.py",
        "tests/testbed/ownimages.py",
        "tests/testbed/pages.py",
        "tests/testbed/shownblocks.py",
        "tests/testbed/wheels.py",
    ),
)
NETWORK = Tier("network", networkdependences.NETWORK)
KUBERNETES = Tier("kubernetes", dependences.KUBERNETES)
CLUSTERSET = Tier("clusterset", dependences.CLUSTERSET)
HANDSHAKE = Tier("handshake", dependences.HANDSHAKE)
STATEFUL = Tier("stateful", dependences.STATEFUL)
PODS = Tier("pods", controllerdependences.PODS)
PLACEMENT = Tier("placement", controllerdependences.PLACEMENT)
TOP = Tier("top", dependences.TOP)
PLUGINS = Tier("plugins", dependences.PLUGINS)
INSTALL = Tier("install", dependences.INSTALL)
LOAD = Tier("load", controllerdependences.LOAD)
ROOMS = (KUBERNETES, CLUSTERSET, HANDSHAKE, STATEFUL, PODS, PLACEMENT, TOP, PLUGINS, INSTALL, LOAD)
ALL = (RELEASE, NETWORK, *ROOMS)
