"""Strategies for scripts: lists of steps, of few names, so that steps meet."""

from hypothesis import strategies as st

from tests.stateful.steps import (
    Cordon,
    Delete,
    Deployment,
    DropRemote,
    DropRemoteNamespace,
    DropSlice,
    DropTenantNamespace,
    DropVirtualNode,
    EditRemote,
    Finish,
    Foreign,
    Label,
    Offload,
    Peer,
    Pod,
    Put,
    Recreate,
    Shut,
    Step,
    StripRemote,
    Unoffload,
    Unpeer,
    Wait,
)
from tests.stateful.troubles import (
    STORMS,
    Answer,
    CutWatches,
    Down,
    Expire,
    Freeze,
    Garble,
    Join,
    Jump,
    Kill,
    Lose,
    Part,
    Restore,
    Save,
    Start,
    Storm,
    Thaw,
    Up,
)
from tests.stateful.upheavals import (
    DEFINED,
    HARMLESS,
    Age,
    Condition,
    CutWebhook,
    DropDefinition,
    DropNamespaceMap,
    DropTenant,
    DropWebhook,
    FailOver,
    Install,
    Isolate,
    Pair,
    Undefine,
)
from tests.stateful.world import CONSUMER, NAMES, PROVIDERS

names = st.sampled_from(("a", "b"))
values = st.sampled_from(("a", "b"))
providers = st.sampled_from(PROVIDERS)
clusters = st.sampled_from(NAMES)
plain = st.sampled_from(("configmap", "secret", "service"))
verbs = st.sampled_from(("*", "watch", "list", "create", "patch", "delete"))
done = st.sampled_from(("get", "watch", "create", "patch", "delete"))
sides = st.sampled_from(
    [(CONSUMER, each) for each in PROVIDERS] + [(p, CONSUMER) for p in PROVIDERS]
)

waits = st.builds(Wait, st.sampled_from((0.05, 0.3, 1.0, 3.0, 20.0, 90.0)))
workloads = st.one_of(
    st.builds(Pod, names, providers),
    st.builds(Pod, names, providers),
    st.builds(Delete, st.just("pod"), names),
    st.builds(Recreate, names, providers),
    st.builds(Label, st.just("pod"), names, st.sampled_from((None, "red", "blue"))),
    st.builds(Deployment, st.sampled_from(("web", "stray")), st.integers(0, 4)),
    st.builds(Delete, st.just("deployment"), st.sampled_from(("web", "stray"))),
    st.builds(Put, plain, names, values),
    st.builds(Delete, plain, names),
    st.builds(Label, plain, names, st.sampled_from((None, "red", "blue"))),
)
hands = st.one_of(
    st.builds(DropRemote, providers, st.sampled_from(("pod", "shadowpod")), names),
    st.builds(DropRemote, providers, plain, names),
    st.builds(EditRemote, providers, st.sampled_from(("pod", "shadowpod")), names, values),
    st.builds(EditRemote, providers, plain, names, values),
    st.builds(StripRemote, providers, st.one_of(plain, st.just("shadowpod")), names),
    st.builds(Foreign, providers, st.one_of(plain, st.just("pod")), names),
    st.builds(Finish, providers, names, st.sampled_from(("Succeeded", "Failed"))),
    st.builds(Cordon, providers, st.booleans()),
    st.builds(Shut, providers, st.booleans()),
    st.builds(DropRemoteNamespace, providers),
)
peerings = st.one_of(
    st.builds(Offload),
    st.builds(Unoffload),
    st.builds(Peer, providers),
    sides.map(lambda side: Unpeer(*side)),
    st.builds(DropSlice, providers),
    st.builds(DropVirtualNode, providers),
    sides.map(lambda side: DropTenantNamespace(*side)),
    sides.map(lambda side: DropNamespaceMap(*side)),
    st.builds(Condition, providers, st.sampled_from(("Active", "Cordoned", "Drained"))),
    st.builds(DropTenant, providers),
    st.builds(Save, providers),
    st.builds(Restore, providers),
)
troubles = st.one_of(
    st.builds(Down, clusters),
    st.builds(Up, clusters),
    st.builds(Freeze, clusters),
    st.builds(Thaw, clusters),
    st.builds(
        Answer,
        clusters,
        verbs,
        st.sampled_from((401, 403, 409, 410, 429, 500)),
        times=st.integers(1, 12),
    ),
    st.builds(Lose, clusters, done, st.integers(1, 4)),
    st.builds(Garble, clusters, done, st.integers(1, 4)),
    st.builds(CutWatches, clusters),
    st.builds(Expire, clusters, st.integers(1, 20)),
    st.builds(Part, providers),
    st.builds(Join, providers),
    st.builds(Kill, clusters, st.integers(1, 400)),
    st.builds(Start, clusters),
    st.builds(Storm, providers, st.sampled_from(STORMS)),
    st.builds(Jump, st.sampled_from((-3600.0, -20.0, 20.0, 3600.0))),
)
upheavals = st.one_of(
    st.builds(Pair, clusters),
    st.builds(Isolate, clusters),
    st.builds(FailOver, clusters, st.booleans()),
    st.sampled_from(((5.0, False), (5.0, True), (8.0, False))).map(lambda age: Age(*age)),
    st.builds(DropDefinition, clusters, st.sampled_from(sorted(DEFINED))),
    st.builds(Install, clusters),
    st.tuples(st.sampled_from(HARMLESS), st.sampled_from(("", *NAMES))).map(
        lambda drawn: Undefine(*drawn[0], anew=drawn[1])
    ),
    st.builds(CutWebhook, st.booleans()),
    st.builds(CutWebhook, st.just(True)),
    st.builds(DropWebhook),
)
steps: st.SearchStrategy[Step] = st.one_of(
    workloads, workloads, waits, hands, peerings, troubles, upheavals
)
scripts = st.lists(steps, min_size=4, max_size=30)
"""Not shorter: what a script costs is its beginning and its end."""
