"""``python -m liqod.install``: write ``docs/reference/rights.md``, all rights of an installation.

Made of the manifests themselves: the daemon's reasons are the annotations of its roles.
"""

from pathlib import Path
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.install import dnsserver, rights
from liqod.install.rarerights import RARE
from liqod.plugins import declared

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "rights.md"
INTRODUCTION: Final = """\
# Rights

Made by `python -m liqod.install` from the manifests that `liqod install` applies.

## The daemon's

The ServiceAccount `liqod` has these and no more. Each role carries the reasons in its annotation
`liqod.io/reasons`, so that they can be read in the cluster too. What a plugin needs comes with the
plugin, by `liqod install --plugin NAME` or in ClusterRoles labelled
`liqod.io/aggregate-to-daemon`, and `liqod-plugins` sums it up.

RBAC gives a right in all namespaces. What that would allow beyond the daemon's work, and by which
a user who has its kubeconfig could take over the cluster, is refused by admission policies
(`liqod-daemon-*`). They refuse it Secrets outside tenant namespaces and its own, and tokens of
ServiceAccounts but for pods in offloaded namespaces and an hour. They refuse it pods and
EndpointSlices outside the namespaces of guests, bindings of others than peers, real nodes, foreign
webhooks, and namespaces that are no peer's. What is left is said in
[security](../background/security.md).
"""
LEAVING: Final = """\
## Those of the chart's Job

`helm uninstall` makes the ServiceAccount `liqod-uninstall` before it takes anything away, and
deletes it with its rights when the Job has
[left all peers](../how-to/chart.md#upgrades-and-away-with-it).
"""
OTHERS: Final = """\
## Those that peers get

They are Liqo's, rule by rule, since peers that run Liqo rely on them. The daemon may bind consumers
to theirs and nobody to any other role; peering users are bound by `liqod generate peering-user`,
with the rights of the user who runs it.
"""
PROFILES: Final = """\
### With `liqod install --cluster-profiles`

The daemon has these beside its own, for the discovery plugin `clusterprofile`.
"""
NODES: Final = """\
## Those of `liqod node`

All nodes share the ServiceAccount `liqod-node`, and their pods the one of that name in
`liqo-nodes`. The policy `liqod-node-status` holds each to the status of the InternalNode that has
the name of the node in its token; one without such a name writes nothing.
"""
SELDOM: Final = """\
### Rights that an ordinary peering does not use

A test runs a whole peering on real clusters with these rights and no others, reads in their audit
logs that nothing was refused, and finds every right used but these. Each of them is needed when:
"""
STORAGE: Final = """\
### Rights that only `liqod install --storage` grants

A volume may name any path of any node, so who makes volumes can read those, if he makes pods too.
The daemon makes stand-ins at `/tmp/liqo-placeholder`, and copies of volumes of this cluster's own
classes; without `--storage` it may make none.
"""
SERVICES: Final = """\
### Rights that only `liqod install --services` grants

The daemon then also writes EndpointSlices of imports in any namespace, which a policy knows by
their label `endpointslice.kubernetes.io/managed-by`, and consumers write ServiceExchanges in their
tenant namespaces. EndpointSlices of a Service that is not an import's stay out of its reach.
"""
COREDNS: Final = """\
### With `liqod install --services-dns`

CoreDNS has these beside its own, in the ServiceAccount of its Deployment in `kube-system`.
"""
DNS_SERVER: Final = """\
### With `liqod install --dns-server`

Its pods, which are CoreDNS's, have these in the ServiceAccount `liqod-dns` in liqod's namespace.
"""
PURPOSES: Final = {
    labels.CONTROL_PLANE_ROLE: "a consumer's daemon, in its tenant namespace here",
    rights.REMOTE_BASE_ROLE: "a consumer's slices, in the namespaces that it has here: summed up "
    f"with what plugins bring, it is the role `{labels.REMOTE_ROLE}`",
    rights.REMOTE_STREAMS_ROLE: "the same: into its own pods there, by `kubectl exec`, `attach`, "
    "`cp` and `port-forward`; where this role is deleted, or has lost its label "
    f"`{rights.AGGREGATE_TO_REMOTE}`, no consumer has that",
    labels.CLUSTER_WIDE_ROLE: "a consumer's slices, in the whole cluster",
    labels.PEERING_USER_ROLE: "a peering user (`liqod generate peering-user`), in its "
    "tenant namespace",
    labels.PEERING_USER_ACCEPTED_ROLE: "a peering user in its tenant namespace, once the consumer "
    "was accepted",
    labels.PEERING_USER_LIQOCTL_ROLE: "the same beside that, if it was made for `liqoctl`",
    labels.PEERING_USER_LIQO_ROLE: "a peering user, in liqod's namespace",
}
"""The purpose of each role that is not the daemon's, beside those of consents."""

Manifest = dict[str, Any]


def render() -> str:
    """The whole page."""
    roles = [*rights.cluster_roles(), *rights.roles(labels.LIQO_NAMESPACE)]
    others = {role["metadata"]["name"]: role for role in roles}
    parts = [INTRODUCTION, *map(_daemon, rights.daemon_roles(labels.LIQO_NAMESPACE)), _rare()]
    parts += [PROFILES, _daemon(rights.CLUSTER_PROFILES_ROLE)]
    parts += [STORAGE, *map(_daemon, rights.storage_roles())]
    parts += [SERVICES, *map(_daemon, rights.service_roles())]
    role, _ = rights.coredns("coredns")
    parts += [COREDNS, _rules_of(role), DNS_SERVER, _daemon(dnsserver.ROLE)]
    parts += [NODES, *map(_daemon, rights.node_roles(labels.LIQO_NAMESPACE))]
    parts += [LEAVING, *map(_daemon, rights.departure_roles(labels.LIQO_NAMESPACE)), OTHERS]
    parts += [_other(others[name], purpose) for name, purpose in PURPOSES.items()]
    parts += [
        _other(
            others[each.role],
            f"a consumer's slices in those namespaces, where `{each.setting}` under `[guests]` is "
            "on",
        )
        for each, _ in declared.opt_ins()
    ]
    return "\n".join(parts)


def _daemon(role: rights.DaemonRole) -> str:
    made = [(each.manifest(), each.reason) for each in role.rules]
    rows = [f"| {_what(rule)} | {_verbs(rule)} | {reason} |" for rule, reason in made]
    where = f" in `{role.namespace}`" if role.namespace else ""
    title = f"### {role.kind} `{role.name}`{where}"
    return "\n".join([title, "", "| what | verbs | why |", "| --- | --- | --- |", *rows, ""])


def _rare() -> str:
    rows = [
        f"| {', '.join(each.verbs)} | {', '.join(f'`{name}`' for name in each.resources)} "
        f"| {each.when} |"
        for each in RARE
    ]
    return "\n".join([SELDOM, "| verbs | of | when |", "| --- | --- | --- |", *rows, ""])


def _other(role: Manifest, purpose: str) -> str:
    title = f"### {role['kind']} `{role['metadata']['name']}`"
    return "\n".join([title, "", f"For {purpose}.", "", _rules_of(role)])


def _rules_of(role: Manifest) -> str:
    rows = [f"| {_what(rule)} | {_verbs(rule)} |" for rule in role["rules"]]
    return "\n".join(["| what | verbs |", "| --- | --- |", *rows, ""])


def _what(rule: Manifest) -> str:
    """Resources with their groups; those named only, where the rule names some."""
    groups = ", ".join(f"`{group}`" for group in rule["apiGroups"] if group)
    resources = ", ".join(f"`{name}`" for name in rule["resources"])
    names = ", ".join(f"`{name}`" for name in rule.get("resourceNames", ()))
    core = "" in rule["apiGroups"]
    place = f" ({'core and ' if core and groups else ''}{groups})" if groups else ""
    return f"{resources}{place}" + (f", only {names}" if names else "")


def _verbs(rule: Manifest) -> str:
    return ", ".join(rule["verbs"])


def main() -> None:
    """Write the page."""
    FILE.write_text(render())
    print(f"{FILE} written")


if __name__ == "__main__":
    main()
