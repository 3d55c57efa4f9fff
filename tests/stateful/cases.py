"""The faults, and what is to be said of each: the table of :mod:`tests.stateful.test_truth`."""

from dataclasses import dataclass

from tests.stateful import mishaps
from tests.stateful.mishaps import Act
from tests.stateful.steps import Step, Wait
from tests.stateful.troubles import CutWatches, Down, Freeze, Garble, Join, Part, Restore, Up
from tests.stateful.upheavals import (
    DEFINED,
    Condition,
    CutWebhook,
    DropDefinition,
    DropTenant,
    Pair,
)

Node = tuple[str, str, bool]
"""A virtual node: its Ready condition, its report of the peer's daemon, its taint for new pods."""
WELL, GONE, SHUT = ("True", "True", False), ("False", "True", False), ("True", "False", True)
PEER_UP, PEER_DOWN = 'liqod_peer_up{peer="milan"} 1.0', 'liqod_peer_up{peer="milan"} 0.0'
PEER_LAYERS = ("daemon", "clock", "versions", "replication", "nodes", "namespaces", "reflection")


@dataclass(frozen=True)
class Case:
    """One fault, and what is to be said of it.

    Attributes:
        name: of the case.
        script: what happens.
        rows: the rows of the page that it is about.
        own: the first layer that fails of this cluster; empty for none.
        peer: the same of the peer milan (or rome, where milan is looked at).
        dark: layers of the peer, or of this cluster, that must not be called good.
        exits: how ``doctor`` and ``status`` end.
        says: what ``status`` names among its problems; empty for nothing in particular.
        node: what the virtual node milan shows; None where it is not looked at.
        metric: a line of the metrics; empty where no daemon can be asked.
        seconds: how long it lasts.
        at: whose commands are used.
        probe: the daemon looks anew.
    """

    name: str
    script: tuple[Step | Act, ...] = ()
    rows: tuple[str, ...] = ()
    own: str = ""
    peer: str = ""
    dark: tuple[str, ...] = ()
    exits: tuple[int, int] = (0, 0)
    says: str = ""
    node: Node | None = WELL
    metric: str = PEER_UP
    seconds: float = 60.0
    at: str = "rome"
    probe: bool = False

    @property
    def kind(self) -> tuple[str, bool, bool]:
        """Whose commands are used, and if a layer fails of this cluster, and of the peer."""
        return self.at, bool(self.own), bool(self.peer)


DAEMON, PEERS_API, PEERS_DAEMON = "The daemon", "A peer's API server", "A peer's daemon"
POLICIES = "A provider's admission policies"
DEFINITIONS, WEBHOOK = "Definitions of custom resources", "The webhook"
UNREACHABLE = "its API server does not answer: "
CASES = (
    Case(
        "all is well",
        rows=(f"{DAEMON}: it is replaced by another version",),
        script=(mishaps.replace_rome,),
    ),
    Case("all is well at the lender", at="milan", node=None, metric="liqod_leader 1.0"),
    # The daemon
    Case(
        "our daemon is killed",
        (mishaps.kill_rome,),
        (f"{DAEMON}: it is killed",),
        own="leader",
        peer="nodes",
        dark=("webhook", "api", "daemon", "nodes"),
        exits=(1, 1),
        says="the daemon is not running",
        metric="",
        seconds=100.0,
        node=("Unknown", "Unknown", False),
    ),
    Case(
        "a standby takes over",
        (Pair("milan"), Wait(30), mishaps.kill_one),
        rows=(f"{DAEMON}: two run beside one cluster",),
    ),
    Case(
        "a definition is missing at our start",
        (DropDefinition("rome", "quotas"), mishaps.replace_rome),
        rows=(f"{DAEMON}: the custom resources are older than it needs, or missing at its start",),
        own="installation",
        exits=(1, 1),
        says="quotas.offloading.liqo.io is missing",
        metric="",
        node=None,
        seconds=30.0,
    ),
    Case(
        "our id is changed",
        (mishaps.rename,),
        rows=(f"{DAEMON}: the cluster's id is changed in its ConfigMap",),
        own="installation",
        exits=(1, 1),
        says="cannot become roma",
    ),
    # A peer's API server
    *(
        Case(
            f"the peer's API server {name}",
            script,
            rows,
            peer="api",
            dark=PEER_LAYERS,
            exits=(1, 1),
            says=says,
            node=GONE,
            metric=PEER_DOWN,
        )
        for name, script, rows, says in (
            ("is gone", (Down("milan"),), (f"{PEERS_API}: it is gone",), UNREACHABLE),
            (
                "is frozen",
                (Freeze("milan"),),
                (
                    f"{PEERS_API}: it is frozen: accepts, and answers nothing",
                    f"{PEERS_API}: either",
                ),
                "accepts connections but answers nothing",
            ),
            ("is cut off", (Part("milan"),), (), UNREACHABLE),
            ("answers 500", (mishaps.answers(500),), (), "answers 500"),
            ("answers 429", (mishaps.answers(429),), (), "answers 429"),
            ("has another authority", (mishaps.anew,), (), "who answers is not known"),
        )
    ),
    Case(
        "the peer's API server refuses our certificate",
        (mishaps.days,),
        peer="api",
        dark=("credentials", *PEER_LAYERS),
        exits=(1, 1),
        seconds=150.0,
        says="has expired",
        node=GONE,
        metric=PEER_DOWN,
    ),
    Case(
        "the peer's API server talks nonsense",
        (Garble("milan", "get", 9999), Garble("milan", "watch", 999), CutWatches("milan")),
        peer="replication",
        dark=("nodes", "daemon", "replication"),
        exits=(1, 1),
        says="there cannot be followed",
        node=None,
    ),
    Case(
        "the peer's API server takes no pods",
        (mishaps.refuse_pods,),
        (
            f"{PEERS_API}: it answers, and takes no pods: a webhook of Liqo's there is down, or it "
            "refuses writes as too many",
        ),
        peer="reflection",
        dark=("reflection",),
        exits=(1, 1),
        says="pods cannot be written",
        node=("True", "True", True),
    ),
    Case(
        "the peer is gone for ever",
        (Down("milan"), Wait(30), mishaps.leave),
        rows=(f"{PEERS_API}: it is gone for ever",),
        says="it is being left",
        node=None,
        metric="liqod_leader 1.0",
        peer="api",
        exits=(1, 1),
    ),
    Case("the peer is back", (Down("milan"), Wait(60), Up("milan")), seconds=120.0),
    Case(
        "the way to the peer was lost for a while",
        (Part("milan"), Wait(60), Join("milan")),
        (
            f"{PEERS_API}: something in between loses the way (a load balancer, a proxy, a "
            "translator of addresses) and keeps this side's connections alive",
        ),
        seconds=120.0,
    ),
    Case(
        "the peer is what it was in a backup",
        (Restore("milan"),),
        rows=(f"{PEERS_API}: it comes back from an old backup",),
        seconds=180.0,
    ),
    # A peer's daemon
    Case(
        "the peer's daemon is killed",
        (mishaps.kill_milan,),
        rows=(f"{PEERS_DAEMON}: it is stopped or killed while its API server answers",),
        peer="daemon",
        dark=("daemon",),
        exits=(1, 1),
        node=SHUT,
        says="its daemon does not run: ",
        metric='liqod_peer_daemon_up{peer="milan"} 0.0',
    ),
    Case(
        "the peer does not show its daemon",
        (mishaps.unshown,),
        rows=(
            f"{PEERS_DAEMON}: the peer does not show it (Liqo, an older liqod)",
            "Versions that differ",
        ),
        dark=("daemon",),
        node=("True", "", False),
    ),
    # This cluster's API server
    *(
        Case(
            f"our API server {name}",
            script,
            ("This cluster's API server",),
            own="server",
            dark=("watches", "webhook"),
            exits=(1, 1),
            node=None,
            metric="liqod_leader 0.0",
        )
        for name, script in (("is gone", (Down("rome"),)), ("is frozen", (Freeze("rome"),)))
    ),
    # Definitions
    *(
        Case(
            f"{plural} are not defined here",
            (DropDefinition("rome", plural),),
            own="installation",
            dark=("installation",),
            exits=(1, 1),
            node=None,
            says=f"the custom resource {plural}.",
            seconds=1.0,
            metric="",
            rows=(f"{DEFINITIONS}: `virtualnodes`",) if plural == "virtualnodes" else (),
        )
        for plural in DEFINED
    ),
    *(
        Case(
            f"{plural} are not defined at the peer",
            (DropDefinition("milan", plural),),
            rows=rows,
            peer=layer,
            dark=(layer,),
            exits=(1, 1),
            probe=True,
            seconds=60.0,
            node=None,
        )
        for plural, layer, rows in (
            ("resourceslices", "versions", (f"{DEFINITIONS}: `resourceslices` at the provider",)),
            ("namespacemaps", "versions", (f"{DEFINITIONS}: `namespacemaps`, on either side",)),
            ("renews", "replication", ()),
            ("shadowpods", "versions", (f"{DEFINITIONS}: `shadowpods` at the provider",)),
            ("shadowendpointslices", "versions", ()),
        )
    ),
    *(
        Case(
            f"{plural} are not defined at the lender",
            (DropDefinition("milan", plural),),
            own="installation",
            exits=(1, 1),
            says=f"{plural}.",
            at="milan",
            node=None,
            metric="",
            seconds=5.0,
            rows=(
                f"{DEFINITIONS}: `resourceslices`, `tenants`, `identities`, `namespaceoffloadings` "
                "where the user made them",
            )
            if plural == "tenants"
            else (),
        )
        for plural in ("tenants", "quotas", "shadowpods")
    ),
    # The webhook
    Case(
        "the webhook cannot be reached",
        (CutWebhook(on=True),),
        (WEBHOOK,),
        own="webhook",
        dark=("webhook",),
        exits=(1, 1),
        probe=True,
        seconds=5.0,
        says="the API server cannot reach the webhook",
    ),
    # What a provider allows
    Case(
        "the tenant is cordoned, at the lender",
        (Condition("milan", "Cordoned"),),
        at="milan",
        dark=("tenant",),
        node=None,
        metric="liqod_leader 1.0",
    ),
    Case(
        "the tenant is drained, at the lender",
        (Condition("milan", "Drained"),),
        at="milan",
        dark=("tenant",),
        node=None,
        metric="liqod_leader 1.0",
    ),
    *(
        Case(
            f"the tenant is {name}",
            script,
            peer="granted",
            dark=("granted",),
            exits=(1, 1),
            node=None,
            says="withdrawn its permission",
            seconds=120.0,
        )
        for name, script in (
            ("drained", (Condition("milan", "Drained"),)),
            ("withdrawn", (DropTenant("milan"),)),
        )
    ),
    *(
        Case(name, script, (), "", "granted", ("granted",), (1, 1), says, seconds=30.0)
        for name, script, says in (
            ("a slice is denied", (mishaps.deny,), "slice extra denied"),
            ("no policy holds whom it is lent to", (mishaps.weaken, mishaps.more), "nothing new"),
        )
    ),
    Case("a slice has no answer", (mishaps.ask_in_vain,), dark=("granted",)),
    Case("what was granted is used up", (mishaps.fill,), says="the pod asks for 7"),
    Case(
        "a namespace's name is taken",
        (mishaps.take_name,),
        peer="namespaces",
        dark=("namespaces",),
        exits=(1, 1),
        says="[milan] namespace shop2: ",
    ),
    *(
        Case(
            name,
            (act,),
            (f"{POLICIES}: one is deleted, or denies nothing any more",),
            own="installation",
            dark=dark,
            exits=(1, 1),
            says="the admission policy liqod-",
            at="milan",
            node=None,
            metric="liqod_leader 1.0",
        )
        for name, act, dark in (
            ("a policy is missing", mishaps.drop_policy, ()),
            ("a policy denies nothing", mishaps.weaken, ("policies",)),
        )
    ),
)
