"""The doctor's layer of the ids of this cluster and of its set, for other programs of the set.

There is none in a cluster that has neither of the two ClusterProperties.
"""

from typing import Final

from liqod.model.view.setfacts import SetFacts
from liqod.plugins.diagnosis import Check, ClusterFacts, Finding, failing, ok
from liqod.resources.about import CLUSTER, CLUSTER_SET

PAGE: Final = "docs/reference/services.md#which-cluster-this-is-and-of-which-set"
SHOWN: Final = 64
"""Characters of another program's value."""


def clusterset(facts: ClusterFacts) -> Finding | None:
    """Check that both properties are there, and that the cluster's is its id."""
    known = facts.clusterset
    if known is None or (known.cluster is None and known.clusterset is None):
        return None
    return _found(known)


def _found(known: SetFacts) -> Finding:
    if known.clusterset is None or known.cluster is None:
        name = CLUSTER if known.cluster is None else CLUSTER_SET
        again = f"`liqod install --clusterset NAME`, or `helm upgrade`, writes it: {PAGE}"
        return failing(f"the ClusterProperty {name} is missing", again)
    said, told = known.cluster.value[:SHOWN], known.clusterset.value[:SHOWN]
    if known.cluster.value != known.own:
        what = f"the ClusterProperty {CLUSTER} says {said!r}, and this cluster is {known.own}"
        if known.cluster.ours:
            again = f"write {known.own} into it, or run `liqod install --clusterset NAME`: {PAGE}"
            return failing(what, again)
        return failing(f"{what}; it is another program's", f"have that one write {known.own}")
    if not told:
        what = f"the ClusterProperty {CLUSTER_SET} names no set"
        return failing(what, f"give it a value, or delete both: {PAGE}")
    others = [
        each
        for each, one in ((CLUSTER, known.cluster), (CLUSTER_SET, known.clusterset))
        if not one.ours
    ]
    whose = f"; another program's: {', '.join(others)}" if others else ""
    return ok(f"{known.own} in {told!r}{whose}")


CHECKS: Final = (
    Check(
        name="clusterset",
        title="ids of the set",
        scope="cluster",
        order=82,
        look=clusterset,
        by_objects=True,
    ),
)
"""The layer; a daemon has no right to these objects."""
