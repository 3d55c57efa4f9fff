"""The doctor's layers of the Services of the set, from the objects of this cluster.

There are none in a cluster without ``liqod install --services``.
"""

from collections.abc import Iterator
from typing import Final

from liqod.apimachinery import labels
from liqod.model.clusterset.corefile import LEAST, OPTION, ZONE
from liqod.model.clusterset.verdicts import CONFLICT, READY, VALID
from liqod.model.view.figures import counted
from liqod.model.view.servicefacts import (
    Asked,
    Condition,
    ExchangeFacts,
    ExportFacts,
    ImportFacts,
    NameServer,
    SharedServices,
)
from liqod.plugins.diagnosis import (
    Check,
    ClusterFacts,
    Fault,
    Finding,
    PeerFacts,
    failing,
    found,
    ok,
    skipped,
    unknown,
)

SETTLES: Final = 10.0
"""Seconds within which an export or an import may still be on its way."""
SHARING: Final = "docs/how-to/services.md"
PAGE: Final = "docs/how-to/service-names.md"
RANK: Final = 3


def services(facts: ClusterFacts) -> Finding | None:
    """Check that exports are known to peers, and that imports have ready endpoints."""
    known = facts.services
    if known is None:
        return None
    if known.off:
        return skipped("the daemon shares none: enabled = false under [services]")
    if known.missing:
        names = " and ".join(known.missing)
        return failing(f"{names} are not served", "run `liqod install --services` again")
    if known.unread:
        return unknown(f"{', '.join(known.unread)} cannot be read by this user")
    faults = (*_exports(known), *_imports(known), *_ways(known))
    if not faults and facts.daemon is not None and not facts.daemon.runs:
        return unknown("it was well when the daemon last ran")
    waiting = _waiting(known)
    if not faults and waiting:
        return unknown(f"{counted(waiting, 'Service')} on the way")
    told = f"{counted(len(known.exports), 'export')}, {counted(len(known.imports), 'import')}"
    return found(faults, told)


def _exports(known: SharedServices) -> Iterator[Fault]:
    for each in sorted(known.exports, key=lambda one: one.key):
        if each.age >= SETTLES:
            yield from _export(each)


def _export(export: ExportFacts) -> Iterator[Fault]:
    name, said = "/".join(export.key), export.conditions
    if READY not in said and VALID not in said:
        what = f"ServiceExport {name}: no daemon has looked at it"
        yield _fault(what, "see that liqod runs, with enabled = true under [services]", name)
        return
    valid, ready, differs = (said.get(each) for each in (VALID, READY, CONFLICT))
    if valid is not None and valid.status != "True":
        what = f"ServiceExport {name}: {valid.reason}: {valid.message}"
        yield _fault(what, "export a Service that is there and is this cluster's own", name)
    elif ready is None or (ready.status != "True" and ready.lasts >= SETTLES):
        why = f"{ready.reason}: {ready.message}" if ready is not None else "it is not said"
        remedy = f"`liqod explain serviceexport {export.key[1]} -n {export.key[0]}` says why"
        yield _fault(f"ServiceExport {name} is not ready: {why}", remedy, name)
    if differs is not None and differs.status == "True":
        what = f"the exports of {name} conflict: {differs.message}"
        yield _fault(what, "give the Service the same properties in all clusters", name)


def _imports(known: SharedServices) -> Iterator[Fault]:
    for each in sorted(known.imports, key=lambda one: one.key):
        if each.ours and each.age >= SETTLES:
            yield from _import(each)


def _import(import_: ImportFacts) -> Iterator[Fault]:
    name, ready = "/".join(import_.key), import_.ready
    remedy = f"`liqod explain serviceimport {import_.key[1]} -n {import_.key[0]}` says why"
    if ready is None or ready.status != "True":
        if ready is None or ready.lasts >= SETTLES:
            why = f"{ready.reason}: {ready.message}" if ready is not None else "it is not said"
            yield _fault(f"ServiceImport {name} is not ready: {why}", remedy, name)
    elif not import_.backends.ready:
        whose = ", ".join(import_.clusters) or "nobody"
        yield _fault(f"ServiceImport {name} of {whose} has no ready endpoint", remedy, name)
    asked = import_.preference
    if asked is not None and asked.status != "True" and asked.lasts >= SETTLES:
        what = f"the endpoints of {name} are not used as its Service asks: {asked.message}"
        yield _fault(what, f"change what it asks for: {SHARING} has the reasons", name)
    if import_.kept is not None and import_.kept.lasts >= SETTLES:
        yield _fault(f"endpoints of {name}: {import_.kept.message}", remedy, name)


def _ways(known: SharedServices) -> Iterator[Fault]:
    for each in known.ways:
        if each.age >= SETTLES:
            yield _fault(each.what, each.remedy, each.namespace)


def _waiting(known: SharedServices) -> int:
    """The number of names with an export or an import that is too young to be judged."""
    exports = (
        each.key
        for each in known.exports
        if each.age < SETTLES or _recent(each.conditions.get(READY))
    )
    imports = (
        each.key
        for each in known.imports
        if each.ours and (each.age < SETTLES or _recent(each.ready))
    )
    return len({*exports, *imports})


def _recent(said: Condition | None) -> bool:
    return said is not None and said.status != "True" and said.lasts < SETTLES


def _fault(what: str, remedy: str, name: str) -> Fault:
    return Fault(what, remedy, (name,), RANK)


def names(facts: ClusterFacts) -> Finding | None:
    """Check that the cluster's DNS server serves the names of imports, to pods too."""
    known = facts.services
    if known is None or known.missing or known.off:
        return None
    seen = _server(known.dns, bool(known.imports))
    if known.dns.responder is not None and (seen is None or seen.verdict != "ok"):
        seen = _own(known.dns, known.dns.responder)
    cache = known.dns.deaf_cache
    if seen is None or seen.verdict == "failing" or not cache:
        return seen
    what = f"the DNS cache on the nodes ({cache}) does not ask the DNS server about {ZONE}"
    return failing(what, f"add the server for {ZONE} to its Corefile: {PAGE} has it")


def _own(dns: NameServer, own: Asked) -> Finding:
    """The finding by liqod's own DNS server, whose names the cluster's has not answered."""
    if own.verdict in ("silent", "foreign"):
        return unknown(unseen(own))
    if own.verdict != "answered":
        logs = f"`kubectl logs -A -l {labels.APP_NAME}=liqod-dns --prefix` says why"
        return failing(f"liqod-dns ({own.server}) does not answer {own.name} as it has to", logs)
    if dns.asked is None:
        return unknown(f"liqod-dns ({own.server}) answers; the cluster's DNS server is not seen")
    what = (
        f"liqod-dns ({own.server}) answers {own.name}, the DNS server {dns.asked.server} does not"
    )
    return failing(what, f"have it forward {ZONE} to {own.server}: {PAGE} says how")


def _server(dns: NameServer, named: bool) -> Finding | None:
    """The finding by the DNS server alone; None where there is none to be had."""
    asked = dns.asked
    if asked is not None and asked.verdict in ("answered", "failed", "absent"):
        return _answered(dns, asked)
    if dns.names.directive == OPTION:
        return _served(dns)
    if not named:
        return None
    if not dns.place:
        return unknown(f"no CoreDNS with a Corefile is seen in kube-system: {PAGE} has the steps")
    if dns.names.directive:
        way = f"{dns.place} gives {ZONE} to {dns.names.directive}"
        return unknown(f"{way}: its answers are not seen from here")
    return failing(f"CoreDNS ({dns.place}) does not serve {ZONE}", remedy(dns))


def _answered(dns: NameServer, asked: Asked) -> Finding:
    """The finding by the answer of the DNS server itself."""
    if dns.lists is False:
        return _served(dns)
    if asked.verdict == "answered":
        return ok(f"{asked.server} answers {asked.name}")
    if asked.verdict == "failed":
        what = f"{asked.server} answers {asked.name} by SERVFAIL"
        return failing(what, f"`kubectl -n kube-system logs -l k8s-app=kube-dns` says why; {PAGE}")
    what = f"{asked.server} does not answer {asked.name} as it has to"
    if dns.names.directive != OPTION:
        return failing(what, f"see {dns.names.directive or 'how the zone is forwarded'}: {PAGE}")
    again = "kubectl -n kube-system rollout restart deployment -l k8s-app=kube-dns"
    return failing(what, f"`{again}` has it read its Corefile anew")


def unseen(asked: Asked) -> str:
    """A clause on a DNS server that could not be asked."""
    other = "another cluster's answers there" if asked.verdict == "foreign" else "it is not reached"
    return f"{asked.server} cannot be asked from here ({other}): run this on a node or in a pod"


def _served(dns: NameServer) -> Finding:
    if dns.lists is False:
        what = f"CoreDNS ({dns.account}) may not list and watch serviceimports"
        return failing(
            f"{what}: SERVFAIL in place of no such name", f"give it the rights in {PAGE}"
        )
    if dns.version and dns.version < LEAST:
        return failing(_too_old(dns), f"update it: {PAGE} has the steps")
    if dns.lists is None:
        return unknown(f"{dns.place} has `{OPTION} {ZONE}`; its rights are not known")
    if dns.asked is not None:
        return unknown(f"{dns.place} has `{OPTION} {ZONE}`, and {unseen(dns.asked)}")
    return ok(f"{dns.place} has `{OPTION} {ZONE}`, and the rights for it")


def remedy(dns: NameServer) -> str:
    """The step that has CoreDNS serve the names, and the exact lines of its Corefile by hand."""
    if dns.version and dns.version < LEAST:
        return f"{_too_old(dns)}: update it, or rewrite each name: {PAGE} has both"
    return (
        f"`liqod install --services-dns`, or by hand: give it the rights in {PAGE} first; then in"
        f" {dns.place} make the line `{dns.names.line}` to `{dns.names.wanted}`, and add in its"
        f" block `{OPTION} {ZONE}`"
    )


def _too_old(dns: NameServer) -> str:
    version, least = (".".join(map(str, each)) for each in (dns.version, LEAST))
    return f"CoreDNS {version} has no option `{OPTION}`, which {least} has"


def exchanges(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of namespaces that are shared with a peer and that it says nothing of."""
    silent = [each for each in facts.exchanges if _is_silent(each)]
    if not silent:
        return
    spaces = sorted({each.namespace for each in silent})
    what = f"it has not answered what is told it of the Services of {', '.join(spaces)}"
    again = "see that its daemon runs, with `liqod install --services` and [services] on"
    yield Fault(what, again, tuple(spaces), RANK)


def _is_silent(each: ExchangeFacts) -> bool:
    return each.asked and each.shared is None and each.age >= SETTLES


CHECKS: Final = (
    Check(
        name="services",
        title="Services of the set",
        scope="cluster",
        order=80,
        look=services,
        by_objects=True,
    ),
    Check(
        name="names",
        title="names of the set",
        scope="cluster",
        order=81,
        look=names,
        by_objects=True,
    ),
)
"""The layers; a daemon's own facts have nothing of them."""
