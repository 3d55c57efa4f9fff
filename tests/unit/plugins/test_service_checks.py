"""The doctor's layers of the Services of the set: each state, and none that is green by mistake."""

from typing import Any

import msgspec
import pytest

from liqod.cli import report
from liqod.model.clusterset.corefile import OPTION, Names
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.rows import CheckRow, Ladder
from liqod.model.view.servicefacts import (
    Asked,
    Condition,
    Endpoints,
    ExchangeFacts,
    ExportFacts,
    ImportFacts,
    NameServer,
    SharedServices,
    WayFault,
)
from liqod.model.view.snapshot import Snapshot
from liqod.plugins import examination
from liqod.plugins.checks import services
from liqod.plugins.diagnosis import ClusterFacts, DaemonFacts, Finding, PeerFacts

KEY = ("shop", "web")
VALID = Condition("True", "Valid", "the Service can be exported", 60.0)
TOLD = Condition("True", "Exported", "known to milan alone", 60.0)
AGREED = Condition("False", "NoConflicts", "all exporters agree", 60.0)
USABLE = Condition("True", "Ready", "it can be used", 60.0)
WELL = {"Valid": VALID, "Ready": TOLD, "Conflict": AGREED}
NOBODY = Condition("False", "NoService", "there is no Service of this name", 60.0)
UNKNOWN_THERE = Condition("False", "Pending", "not yet known to milan", 60.0)
LEFT_OUT = Condition("False", "Failed", "milan cannot be told of it: a bound", 60.0)
DIFFERS = Condition("True", "PortConflict", "ports: that of rome is used", 60.0)
ABSENT = Condition("False", "IPFamilyNotSupported", "it has IPv6, which this cluster has not", 60.0)
UNZONED = Condition("False", "NodesWithoutZone", "2 nodes without the label", 60.0)
SILENT = Condition("True", "NothingReached", "nothing gets through to milan", 60.0)
RUNS = DaemonFacts(runs=True)


def export(age: float = 90.0, **conditions: Condition | None) -> ExportFacts:
    said = {name: each for name, each in {**WELL, **conditions}.items() if each is not None}
    return ExportFacts(KEY, age, said)


def imported(**changes: Any) -> ImportFacts:
    well = ImportFacts(
        *(KEY, 90.0, True, "ClusterSetIP", ("10.96.0.9",), USABLE, ("milan", "rome")),
        {"milan": Endpoints(2, 2), "rome": Endpoints(1, 0)},
    )
    return msgspec.structs.replace(well, **changes)


def here(*found: ExportFacts | ImportFacts, daemon: DaemonFacts = RUNS, **more: Any) -> Any:
    exports = tuple(each for each in found if isinstance(each, ExportFacts))
    imports = tuple(each for each in found if isinstance(each, ImportFacts))
    known = SharedServices(exports=exports, imports=imports, **more)
    return ClusterFacts(services=known, daemon=daemon)


def late(condition: Condition) -> Condition:
    return condition._replace(lasts=3.0)


@pytest.mark.parametrize(
    ("facts", "verdict", "says"),
    [
        (here(export(), imported()), "ok", "1 export, 1 import"),
        (here(), "ok", "0 exports, 0 imports"),
        (here(export(Valid=NOBODY, Ready=None, Conflict=None)), "failing", "NoService: there is"),
        (here(export(Ready=UNKNOWN_THERE)), "failing", "not ready: Pending: not yet known to mi"),
        (here(export(Ready=LEFT_OUT)), "failing", "not ready: Failed: milan cannot be told"),
        (here(export(Ready=None)), "failing", "not ready: it is not said"),
        (here(export(Conflict=DIFFERS)), "failing", "the exports of shop/web conflict: ports: "),
        (here(ExportFacts(KEY, 90.0)), "failing", "no daemon has looked at it"),
        (here(imported(ready=ABSENT)), "failing", "shop/web is not ready: IPFamilyNotSupported"),
        (here(imported(ready=None)), "failing", "is not ready: it is not said"),
        (here(imported(endpoints={})), "failing", "of milan, rome has no ready endpoint"),
        (here(imported(endpoints={"milan": Endpoints(2, 0)})), "failing", "has no ready endpoint"),
        (here(imported(preference=UNZONED)), "failing", "asks: 2 nodes without the label"),
        (here(imported(preference=late(UNZONED))), "ok", ""),
        (here(imported(preference=USABLE)), "ok", ""),
        (here(imported(kept=SILENT)), "failing", "endpoints of shop/web: nothing gets through"),
        (here(imported(kept=late(SILENT))), "ok", ""),
        (here(imported(ours=False, ready=None)), "ok", ""),  # of another program
        (here(ways=(WayFault("shop", "turin is no peer", "name one"),)), "failing", "turin is no"),
        (here(ways=(WayFault("shop", "turin is no peer", "name one", 3.0),)), "ok", ""),
        # What has just been made, or has just changed, is neither well nor wrong.
        (here(ExportFacts(KEY, 2.0)), "unknown", "1 Service on the way"),
        (here(export(Ready=late(UNKNOWN_THERE))), "unknown", "1 Service on the way"),
        (here(imported(age=2.0, ready=None)), "unknown", "1 Service on the way"),
        (here(imported(ready=late(ABSENT))), "unknown", "1 Service on the way"),
        (here(export(), daemon=DaemonFacts(runs=False)), "unknown", "when the daemon last ran"),
        (here(export(Ready=LEFT_OUT), daemon=DaemonFacts(runs=False)), "failing", "cannot be told"),
        (here(export(), unread=("serviceexports",)), "unknown", "cannot be read by this user"),
        (here(missing=("serviceimports.multicluster.x-k8s.io",)), "failing", "not served"),
        (here(export(Ready=LEFT_OUT), off=True), "skipped", "enabled = false under [services]"),
    ],
)
def test_exports_and_imports(facts: ClusterFacts, verdict: str, says: str):
    found = services.services(facts)
    assert found is not None
    assert (found.verdict, says in found.evidence) == (verdict, True), found
    assert bool(found.remedy) == (verdict == "failing")


SERVES = Names(OPTION, ("cluster.local", "clusterset.local"))


def own(verdict: Any) -> Asked:
    return Asked("10.96.0.99", "web.shop.svc.clusterset.local", verdict)


OWN = own("answered")
CACHE = "kube-system/node-local-dns"
PLAIN = Names("", ("cluster.local", "in-addr.arpa"))


def told(verdict: Any) -> Asked:
    return Asked("10.96.0.10", "web.shop.svc.clusterset.local", verdict)


def dns(**changes: Any) -> NameServer:
    names = {"names": PLAIN, "version": (1, 13, 1), "account": "coredns"}
    return NameServer("kube-system/coredns", **{**names, **changes})


@pytest.mark.parametrize(
    ("server", "verdict", "says"),
    [
        (dns(names=SERVES, lists=True), "ok", "and the rights for it"),
        (dns(names=SERVES, lists=False), "failing", "(coredns) may not list and watch"),
        (dns(names=SERVES, lists=None), "unknown", "its rights are not known"),
        (dns(names=SERVES, lists=True, version=(1, 11, 3)), "failing", "1.11.3 has no option"),
        (dns(), "failing", "(kube-system/coredns) does not serve clusterset.local"),
        (dns(version=()), "failing", "does not serve clusterset.local"),
        (dns(names=Names("forward")), "unknown", "clusterset.local to forward"),
        (NameServer(), "unknown", "no CoreDNS with a Corefile is seen"),
        # Its answer counts more than its configuration,
        (dns(names=SERVES, lists=True, asked=told("answered")), "ok", "10.96.0.10 answers web."),
        (dns(names=SERVES, lists=None, asked=told("answered")), "ok", "10.96.0.10 answers web."),
        (dns(names=SERVES, lists=True, asked=told("absent")), "failing", "local as it has to"),
        (dns(names=SERVES, lists=True, asked=told("failed")), "failing", "SERVFAIL"),
        (dns(names=Names("forward"), asked=told("answered")), "ok", "10.96.0.10 answers web."),
        (dns(names=Names("forward"), asked=told("absent")), "failing", "does not answer web."),
        (NameServer(asked=told("answered")), "ok", "10.96.0.10 answers web."),
        # but not rights that are gone: it fails when it starts again.
        (dns(names=SERVES, lists=False, asked=told("answered")), "failing", "may not list and"),
        # Where it cannot be asked, nothing is green.
        (dns(names=SERVES, lists=True, asked=told("silent")), "unknown", "cannot be asked from h"),
        (dns(names=SERVES, lists=True, asked=told("foreign")), "unknown", "another cluster's ans"),
        (dns(names=Names("forward"), asked=told("silent")), "unknown", "its answers are not seen"),
        (dns(asked=told("silent")), "failing", "does not serve clusterset.local"),
        # Pods ask the cache on their node, whatever the server itself answers.
        (dns(names=SERVES, asked=told("answered"), deaf_cache=CACHE), "failing", "cache on the n"),
        (dns(names=SERVES, lists=None, deaf_cache=CACHE), "failing", f"nodes ({CACHE}) does not"),
        (NameServer(asked=told("answered"), deaf_cache=CACHE), "failing", "does not ask the DNS"),
        (dns(deaf_cache=CACHE), "failing", "(kube-system/coredns) does not serve"),
        # The DNS server of its own is not enough: something has to ask it.
        (dns(asked=told("absent"), responder=OWN), "failing", "the DNS server 10.96.0.10 does not"),
        (dns(asked=told("answered"), responder=OWN), "ok", "10.96.0.10 answers web."),
        (dns(names=Names("forward"), responder=OWN), "unknown", "DNS server is not seen"),
        (NameServer(responder=OWN), "unknown", "liqod-dns (10.96.0.99) answers; the cluster's"),
        (dns(asked=told("absent"), responder=own("failed")), "failing", "(10.96.0.99) does not a"),
        (dns(asked=told("absent"), responder=own("absent")), "failing", "(10.96.0.99) does not a"),
        (dns(asked=told("silent"), responder=own("silent")), "unknown", "cannot be asked from her"),
    ],
)
def test_the_dns_server(server: NameServer, verdict: str, says: str):
    found = services.names(here(imported(), dns=server))
    assert found is not None
    assert (found.verdict, says in found.evidence) == (verdict, True), found
    assert bool(found.remedy) == (verdict == "failing")


def test_the_remedy_has_the_lines_of_this_corefile_and_the_rights_first():
    found = services.names(here(imported(), dns=dns()))
    assert found is not None
    assert found.remedy == (
        "`liqod install --services-dns`, or by hand: give it the rights in"
        " docs/how-to/service-names.md first; then in kube-system/coredns make the line"
        " `kubernetes cluster.local in-addr.arpa`"
        " to `kubernetes cluster.local clusterset.local in-addr.arpa`, and add in its block"
        " `multicluster clusterset.local`"
    )


def test_an_old_one_is_not_told_to_use_an_option_that_it_lacks():
    found = services.names(here(imported(), dns=dns(version=(1, 12, 1))))
    assert found is not None
    assert found.remedy.startswith("CoreDNS 1.12.1 has no option `multicluster`, which 1.12.2 has")


@pytest.mark.parametrize(
    "facts",
    [
        ClusterFacts(),
        here(dns=dns()),  # there is no name to serve
        here(imported(), dns=dns(), off=True),
    ],
)
def test_there_is_no_layer_of_names_where_there_are_none(facts: ClusterFacts):
    assert services.names(facts) is None


def test_a_dns_server_without_rights_fails_although_there_is_no_name_yet():
    found = services.names(here(dns=dns(names=SERVES, lists=False)))
    assert isinstance(found, Finding)
    assert found.verdict == "failing"


def exchange(**changes: Any) -> ExchangeFacts:
    return msgspec.structs.replace(ExchangeFacts("milan", "shop", True, 60.0, True), **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"shared": False}, []),  # it answers, and may want it so
        ({"shared": None, "age": 3.0}, []),
        ({"shared": None, "asked": False}, []),
        (
            {"shared": None},
            ["it has not answered what is told it of the Services of shop"],
        ),
    ],
)
def test_a_peer_that_does_not_answer(changes: Any, said: list[str]):
    facts = PeerFacts(peer="milan", exchanges=(exchange(**changes),))
    found = examination.problems(ClusterFacts(), [facts])
    assert [each.what for each in found] == said
    assert all(each.peer == "milan" for each in found)


def test_they_are_the_last_layers_of_a_daemon_that_was_asked():
    own = Ladder("", tuple(CheckRow(each, each, "ok") for each in ("server", "plugins")))
    snapshot = Snapshot(cluster_id="rome", services=here(export(), imported(), dns=dns()).services)
    found = report.completed(own, snapshot).checks
    assert [each.layer for each in found if each.layer != "leader"] == [
        *("server", "installation", "plugins", "services", "names"),
    ]


@pytest.mark.parametrize(("shares", "verdict"), [(True, "ok"), (None, "ok"), (False, "skipped")])
def test_a_daemon_that_shares_none_is_believed(shares: bool | None, verdict: str):
    snapshot = Snapshot(
        cluster_id="rome", leader="d", leader_age=1.0, services=here(export()).services
    )
    found = report.beside(snapshot, ProcessFacts(services=shares))
    checks = report.completed(Ladder("", ()), found).checks
    assert [each.verdict for each in checks if each.layer == "services"] == [verdict]
