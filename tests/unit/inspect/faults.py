"""The faults, and what is to be said of each, for :mod:`tests.unit.inspect.test_faults`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from liqod.apimachinery import labels
from liqod.model.crossing.exclusions import NAMESPACE_STAYS
from liqod.model.ids import IdProblem
from liqod.model.objects.quantities import NANO
from liqod.model.objects.webhook import NO_ENDPOINT
from liqod.model.peering.foreigncluster import REFUSES, UNTRUSTED
from liqod.model.view.daemonfacts import PluginFacts, SightingFacts
from liqod.model.view.networkfacts import NodeWay, PodTrip
from liqod.model.view.requests import RequestRow
from liqod.model.view.snapshot import PodSummary
from liqod.plugins.diagnosis import (
    NodeFacts,
    QueueFacts,
    ReflectionFacts,
)
from tests.unit.inspect.faulty import (
    cut_off,
    degraded,
    denied,
    lent,
    offers,
    plugin,
    unmapped,
    without_place,
)
from tests.unit.model.test_overview import node, peer
from tests.unit.network.test_ways import FABRIC
from tests.unit.network.test_ways import node as internal

WORKS = "milan: every layer works"
FIREWALL = "let UDP"
KEY = "see that each side has the other's key"
AGAIN = "`liqod peer milan` with the same options again"
NODE_DOWN = {"milan": "its API server does not answer"}


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Fault(NamedTuple):
    """One fault.

    Attributes:
        name: what has failed.
        objects: changes of the custom resources.
        here, there, link, joined: changes of what the daemon's doctor knows: of this cluster, of
            the peer, of the way to its API server, and of the network that is joined with it.
        knows: what else the daemon knows.
        says: what both commands must say, with the daemon at hand.
        never: what neither may say, in any case.
        alone: what both must say by the API server alone; None where it is not seen there.
        ends: their exit status.
        only: the one of both that says it where the exit status is 0: hints are `status`'s.
        runs: whether this cluster's daemon can be asked.
    """

    name: str
    objects: Mapping[str, Any] = NOTHING
    here: Mapping[str, Any] = NOTHING
    there: Mapping[str, Any] = NOTHING
    link: Mapping[str, Any] = NOTHING
    joined: Mapping[str, Any] = NOTHING
    knows: Mapping[str, Any] = NOTHING
    says: Sequence[str] = ()
    never: Sequence[str] = ()
    alone: Sequence[str] | None = None
    ends: int = 1
    only: str = ""
    runs: bool = True


DOWN = {"state": "down", "reason": "connection refused"}
DEAD = {"daemon": "silent", "daemon_why": "its Lease was last renewed at 12:00 by its clock"}
NETWORK_FAILS = ("way between the gateways fails", "the tunnel fails", "the joined network")

FAULTS = [
    Fault("all is well", says=("running as host-1",), alone=("running as host-1",), ends=0),
    # The daemon
    Fault(
        "the daemon was killed",
        objects={"leader_age": 75.0},
        runs=False,
        alone=("not running: last heard of 75 s ago", "start `liqod run`"),
        never=(WORKS, "✓ the pod webhook", "✓   the daemon", "✓   its API server"),
    ),
    Fault(
        "the daemon was killed just now",
        objects={"leader_age": 4.0, "leader_gone": "nobody answers at /run/liqod/rome.sock"},
        runs=False,
        alone=("not running: nobody answers at /run/liqod/rome.sock", "last heard of 4 s ago"),
        never=(WORKS, "✓   the daemon", "✓   its API server"),
    ),
    Fault(
        "the daemon has not renewed its Lease for longer than a leader may",
        objects={"leader_age": 9.0},
        runs=False,
        alone=("not running: last heard of 9 s ago",),
        never=(WORKS,),
    ),
    Fault(
        "another daemon stands by",
        objects={"standbys": ("host-2",)},
        says=("host-2 standing by",),
        alone=("host-2 standing by",),
        ends=0,
    ),
    Fault(
        "the cluster's id was changed",
        objects={
            "id_problem": IdProblem("the id says rome-2", "`liqod install --cluster-id rome`")
        },
        says=("the id says rome-2",),
        alone=("the id says rome-2",),
    ),
    Fault(
        "a definition was deleted",
        objects={"definitions": ("tenants.authentication.liqo.io",)},
        here={"silent": {"tenants": "404"}},
        says=("custom resource tenants.authentication.liqo.io", "tenants: 404"),
        alone=("custom resource tenants.authentication.liqo.io",),
    ),
    Fault(
        "the definitions are older than the daemon needs",
        objects={"older": ("tenants.authentication.liqo.io",), "leader": "", "leader_age": 30.0},
        runs=False,
        alone=("tenants.authentication.liqo.io is older than a daemon", "run `liqod install`"),
        never=(WORKS, "is missing"),
    ),
    Fault(
        "older definitions do while the daemon of their version runs",
        objects={"older": ("tenants.authentication.liqo.io",)},
        never=("is older than",),
        alone=(),
        ends=0,
    ),
    Fault(
        "its key comes from another cluster",
        objects={"id_problem": IdProblem("the key of rome comes from another cluster", "choose")},
        says=("the key of rome comes from another cluster",),
        alone=("the key of rome comes from another cluster",),
    ),
    Fault(
        "its own certificate has ended",
        here={"certificate": -60.0},
        says=("the daemon's credentials fails", "`liqod install --write-kubeconfig FILE`"),
    ),
    Fault(
        "a kind cannot be followed",
        here={"silent": {"tenants": "403"}},
        says=(
            "following objects fails",
            "1 kind not followed, tenants: 403",
        ),
    ),
    Fault(
        "the port of the handshake is taken",
        here={"unmet": "port 6446 is in use"},
        says=(
            "the handshake fails",
            "no other cluster can ask this one: port 6446 is in use",
        ),
    ),
    Fault("the event loop is late", here={"lag": 4.0}, says=("keeping up fails",)),
    Fault("the clock is wrong", here={"skew": 90.0}, says=("the clock fails",)),
    Fault(
        "a kind may not be read by who asks",
        objects={"unread": ("nodes",)},
        says=("this is not all: nodes cannot be read",),
        alone=("this is not all: nodes cannot be read",),
    ),
    # Plugins
    Fault(
        "a reflector breaks at an object",
        knows={"plugins": {"a": plugin("shop/odd cannot be worked on: KeyError")}},
        says=("shop/odd cannot be worked on: KeyError",),
        never=("all are loaded and work",),
    ),
    Fault(
        "a reflector blocks",
        knows={"plugins": {"a": plugin("parked for 60 s more: a call took 10 s")}},
        says=("parked for 60 s more",),
    ),
    Fault(
        "a discovery has ended",
        knows={"plugins": {"a": plugin("it ended by itself", kind="discovery", name="dns")}},
        says=("it ended by itself",),
        never=("all are loaded and work",),
    ),
    Fault(
        "a check breaks",
        knows={
            "plugins": {"a": plugin("the last 3 calls failed: KeyError", kind="check", name="etcd")}
        },
        says=("the last 3 calls failed: KeyError",),
    ),
    Fault(
        "a plugin was left out",
        knows={"plugins": {"a": PluginFacts("gadgets", "plugin", state="left out", why="no hook")}},
        says=("no hook",),
    ),
    Fault(
        "a cluster that is seen cannot be peered with",
        knows={"sightings": {"a": SightingFacts("turin", "manual", problem="no such file")}},
        says=("peering with it fails: no such file",),
    ),
    # A peer's API server
    Fault(
        "it is gone",
        objects={"foreign_clusters": (peer("milan", up=False),), "nodes": NODE_DOWN},
        link=DOWN,
        there={"reflection": ReflectionFacts(nodes=(NodeFacts("milan", "gone"),))},
        says=("its API server", "refused"),
        alone=("its API server", "refused"),
        never=(*NETWORK_FAILS, "the peer's daemon fails", "its daemon does not run", WORKS),
    ),
    Fault(
        "it is frozen, and nobody knows yet",
        link={"answered": 9.0},
        says=(),
        never=("answered 0 s ago", "answered 4 s ago"),
        ends=0,
    ),
    Fault(
        "it refuses this cluster",
        objects={"foreign_clusters": (peer("milan", up=False, reason=REFUSES),)},
        link={**DOWN, "problem": "refused"},
        says=("its API server", AGAIN, "what runs at milan stays"),
        alone=("its API server", AGAIN, "what runs at milan stays"),
        never=NETWORK_FAILS,
    ),
    Fault(
        "it is another",
        objects={"foreign_clusters": (peer("milan", up=False, reason=UNTRUSTED),)},
        link={**DOWN, "problem": "untrusted"},
        says=("is that still milan? if it was made anew, `liqod peer milan --replace`",),
        alone=("is that still milan? if it was made anew, `liqod peer milan --replace`",),
        never=NETWORK_FAILS,
    ),
    Fault(
        "it takes no pods",
        objects={"foreign_clusters": (degraded("pods cannot be written"),)},
        link={"degraded": "pods cannot be written"},
        says=("pods cannot be written",),
        alone=("pods cannot be written",),
        never=("its API server fails", *NETWORK_FAILS),
    ),
    Fault(
        "it has not a kind",
        objects={"foreign_clusters": (degraded("lamps there cannot be followed: not found"),)},
        link={"degraded": "lamps there cannot be followed: not found"},
        there={"reflection": ReflectionFacts(namespaces=1, blind={"lamps": "not found"})},
        says=("lamps there cannot be followed",),
        alone=("lamps there cannot be followed", "`liqod doctor milan`"),
        never=("what is between", "check the rights", *NETWORK_FAILS),
    ),
    Fault(
        "it is gone for ever, and is left",
        objects={"foreign_clusters": (peer("milan", notes={labels.TOMBSTONE: "{}"}),)},
        says=("it is being left", "`liqod unpeer milan --forget` gives that up"),
        alone=("it is being left",),
        ends=0,
        only="status",
    ),
    Fault(
        "a consumer that this cluster dials is cut off",
        objects={"outgoing": (offers("its daemon has ended"),)},
        says=("that is not there: its daemon has ended",),
        alone=("that is not there: its daemon has ended",),
        ends=0,
        only="status",
    ),
    Fault(
        "it has taken back what it granted",
        objects={"slices": (denied("the provider has withdrawn its permission"),)},
        there={"denied": {"gpus": "the provider has withdrawn its permission"}},
        says=("the provider has withdrawn its permission",),
        alone=("the provider has withdrawn its permission",),
    ),
    Fault(
        "it does not agree to a request",
        objects={"outgoing": (RequestRow("milan", "milan", state="Failed", reason="no room"),)},
        says=("the request milan to borrow has failed: no room", AGAIN),
        alone=("the request milan to borrow has failed: no room", AGAIN),
    ),
    Fault(
        "it knows this cluster by its former key",
        objects={"former": ("milan",)},
        says=("milan knows this cluster by its former key",),
        alone=("milan knows this cluster by its former key",),
        ends=0,
        only="status",
    ),
    Fault("its probes are lost", link={"loss": 0.5}, says=("50 % of the probes are lost",)),
    # A peer's daemon
    Fault(
        "it was killed",
        objects={"foreign_clusters": (peer("milan", notes={labels.PEER_DAEMON: "its Lease"}),)},
        link=DEAD,
        says=("daemon", "start `liqod run` beside milan"),
        alone=("its Lease", "start `liqod run` beside milan"),
        never=(*NETWORK_FAILS, FIREWALL, WORKS),
    ),
    Fault(
        "it was killed just now",
        objects={"foreign_clusters": (peer("milan", notes={labels.PEER_DAEMON: "true"}),)},
        link={"daemon_renewed": 9.0, "daemon_looked": 0.0, "daemon_quiet": 9.0},
        says=(
            "the peer's daemon fails",
            "it did not renew its Lease for 9 s",
        ),
        never=(*NETWORK_FAILS, FIREWALL, "✓   the peer's daemon"),
    ),
    Fault(
        "nobody has looked at its Lease",
        link={"daemon_renewed": 80.0, "daemon_looked": 79.0},
        never=("✓   the peer's daemon", WORKS),
        ends=0,
    ),
    Fault(
        "it does not show its Lease",
        link={"daemon": "untold"},
        never=("✓   the peer's daemon", WORKS),
        ends=0,
    ),
    # The joined network
    Fault(
        "a key is wrong, and what arrives is refused",
        objects={"connections": (cut_off(),)},
        joined={"heard": 90.0, "echo": 90.0, "handshake": None, "arrived": 9.0},
        says=("none is of the key that is known", KEY),
        alone=("the joined network: the tunnel is Connecting",),
        never=(FIREWALL,),
    ),
    Fault(
        "a key is wrong, and nothing arrives",
        objects={"connections": (cut_off(),)},
        joined={"heard": None, "echo": None, "handshake": None, "endpoint": ""},
        says=(f"→ {KEY}", "the way between the gateways"),
        alone=("the joined network: the tunnel is Connecting",),
        never=(f"→ {FIREWALL}",),
    ),
    Fault(
        "a firewall closes what was open",
        objects={"connections": (cut_off(),)},
        joined={"heard": 90.0, "echo": 90.0, "handshake": 90.0},
        says=(f"→ {FIREWALL}", "nothing for 90 s"),
        alone=("the joined network: the tunnel is Connecting",),
        never=(KEY,),
    ),
    Fault(
        "the tunnel's process was killed",
        objects={"connections": (cut_off("Error"),)},
        joined={"device": "wireguard does not run", "heard": 9.0},
        says=(
            "the tunnel fails",
            "wireguard does not run",
        ),
        alone=("the joined network: the tunnel is Error",),
        never=(FIREWALL,),
    ),
    Fault(
        "pods do not reach each other",
        joined={"pods": PodTrip(1.0, error="nothing came back")},
        says=(
            "from pod to pod fails",
            "nothing came back",
        ),
        never=("the tunnel fails",),
    ),
    Fault(
        "a node lacks its route",
        joined={"nodes": (NodeWay("rome-2", ("route to 10.71.0.0/16",), 1.0),)},
        says=("rome-2 lacks route to 10.71.0.0/16",),
    ),
    Fault(
        "a node has no agent",
        objects={"fabrics": (FABRIC,), "internal_nodes": (internal("rome-2"),)},
        joined={"nodes": (NodeWay("rome-2", told=None),)},
        says=("rome-2",),
        alone=("pods of the node rome-2 may reach no peer", "has never run there"),
        never=("the tunnel fails",),
    ),
    # What is lent and borrowed
    Fault(
        "no node of the peer's is ready",
        objects={"virtual_nodes": (node("milan", "milan", **{labels.NODES_READY: "none"}),)},
        says=("no node of the peer's is Ready", "`kubectl get nodes` there"),
        alone=("no node of the peer's is Ready", "`kubectl get nodes` there"),
        never=("virtual nodes fails", *NETWORK_FAILS),
    ),
    Fault(
        "all ready nodes of the peer's are cordoned",
        objects={"virtual_nodes": (node("milan", "milan", **{labels.NODES_CORDONED: "true"}),)},
        says=("every Ready node of the peer's is cordoned",),
        alone=("every Ready node of the peer's is cordoned", "`kubectl get nodes` there"),
        never=("no node of the peer's is Ready", *NETWORK_FAILS),
    ),
    Fault(
        "some of the peer's nodes are not ready",
        objects={"virtual_nodes": (node("milan", "milan", **{labels.NODES_READY: "some"}),)},
        says=("not all nodes of the peer's are Ready",),
        alone=("not all nodes of the peer's are Ready",),
        never=NETWORK_FAILS,
    ),
    Fault(
        "no node of the peer's has a place for a pod",
        objects={"pods": (without_place("0/1 nodes are available: 1 Insufficient cpu"),)},
        says=("no node of milan has a place for the pod shop/web", "Insufficient cpu"),
        alone=("no node of milan has a place for the pod shop/web", "Insufficient cpu"),
    ),
    Fault(
        "consumers are granted more than there is",
        objects={"slices": (lent(cpu="4"),), "capacity": {"cpu": 2 * NANO}},
        says=("consumers are granted cpu 4, and the nodes here have cpu 2",),
        alone=("consumers are granted cpu 4, and the nodes here have cpu 2",),
        ends=0,
        only="status",
    ),
    Fault(
        "a namespace cannot be mapped",
        objects={"offloadings": (unmapped("NameTaken", "shop belongs to somebody else there"),)},
        says=("namespace shop: shop belongs to somebody else there", "choose another name"),
        alone=("namespace shop: shop belongs to somebody else there", "choose another name"),
    ),
    Fault(
        "volumes hold a namespace at the peer",
        objects={"offloadings": (unmapped(NAMESPACE_STAYS, "data lies there"),)},
        says=("namespace shop: data lies there", "`liqod unoffload namespace shop`"),
        alone=("namespace shop: data lies there", "`liqod unoffload namespace shop`"),
    ),
    Fault(
        "an admission policy denies nothing",
        objects={"policies": ("liqod-guests",)},
        here={"policies": ("liqod-guests",)},
        says=("admission policy liqod-guests is missing or denies nothing",),
        alone=("admission policy liqod-guests is missing or denies nothing",),
    ),
    Fault(
        "a slice is denied",
        objects={"slices": (denied(),)},
        there={"denied": {"gpus": "too much"}},
        says=("slice gpus", "denied: too much"),
        alone=("slice gpus denied: too much",),
    ),
    Fault(
        "a certificate ends",
        objects={"expiries": {("milan", "controlplane-milan"): 3600.0}},
        there={"certificates": {"control plane": 3600.0}},
        says=("and was not renewed",),
        alone=("and was not renewed",),
    ),
    Fault(
        "the virtual node is gone",
        objects={"nodes": {}},
        there={"reflection": ReflectionFacts(nodes=(NodeFacts("milan", "there is no such Node"),))},
        says=("there is no such Node",),
        alone=("there is no such Node",),
    ),
    Fault(
        "the peer's task fails",
        there={"failure": "boom"},
        says=(
            "the peer's task fails",
            "boom",
        ),
    ),
    Fault(
        "what is replicated waits",
        there={"replication": QueueFacts(waiting=2, oldest=60.0, error="403")},
        says=("2 objects waiting, the oldest for 60 s: 403",),
    ),
    # The webhook
    Fault(
        "the API server cannot reach it",
        objects={"webhook": "nothing answers it at 10.0.0.1"},
        here={"webhook": "nothing answers it at 10.0.0.1", "proved": 5.0},
        says=("nothing answers it at 10.0.0.1", "set webhook.advertise"),
        alone=("nothing answers it at 10.0.0.1", "set webhook.advertise"),
    ),
    Fault(
        "the control plane reaches no pod",
        objects={"webhook": "nothing answers it at liqod.liqo.svc"},
        here={"webhook": "nothing answers it at liqod.liqo.svc", "proved": 5.0},
        says=("nothing answers it at liqod.liqo.svc", "let the control plane reach pods"),
        alone=("nothing answers it at liqod.liqo.svc", "let the control plane reach pods"),
        never=("to an address that the API server reaches",),
    ),
    Fault(
        "no pod of its Service is ready",
        objects={"webhook": NO_ENDPOINT},
        here={"webhook": NO_ENDPOINT, "proved": 5.0},
        says=(NO_ENDPOINT, "see why the daemon's pod is not ready"),
        alone=(NO_ENDPOINT, "see why the daemon's pod is not ready"),
        never=("set webhook.advertise",),
    ),
    Fault(
        "it was not tried yet",
        objects={"webhook": ""},
        here={"webhook": "", "proved": None},
        alone=(),
        never=("set webhook.advertise", "✓   the pod webhook"),
        ends=0,
    ),
    Fault(
        "no pod is made of ShadowPods, and nothing says why",
        there={"borrows": True, "tenant": "Active", "unmade": ("shop-milan/b", "shop-milan/a")},
        says=("2 ShadowPods of it, such as shop-milan/a: no pod is made, and no reason is given",),
        never=(WORKS, "✓   its pods here"),
    ),
    Fault(
        "a consumer has more objects here than are kept",
        there={
            "borrows": True,
            "tenant": "Active",
            "unmade": (),
            "left_out": ("endpointslices", "shadowpods"),
        },
        says=(
            "not all endpointslices, shadowpods are read",
            "raise max_bytes under [guests]",
        ),
        never=(WORKS, "✓   its pods here"),
    ),
    # What is no fault
    Fault(
        "a pod waits",
        objects={"pods": (PodSummary("shop", "web", "milan", "Pending", False, reason="no room"),)},
        ends=0,
        alone=(),
    ),
    Fault("pods stayed at home", objects={"stayed": {"shop": 2}}, ends=0, alone=()),
    Fault("a peer tells no figures of pods", there={"usage": "403"}, never=(WORKS,), ends=0),
]
