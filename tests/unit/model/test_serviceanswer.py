"""``liqod explain`` of a Service of the set: why a cluster has no ready endpoint; and the sums."""

from typing import Any

import msgspec
import pytest

from liqod.cli.commands.explain import service_text
from liqod.cli.statustext import render
from liqod.model.clusterset.importing import derived_name
from liqod.model.view import serviceanswer
from liqod.model.view.overview import Overview
from liqod.model.view.serviceanswer import PeerShare, PeerSight, ServiceAnswer, ServicesRow, sums
from liqod.model.view.servicefacts import (
    Condition,
    Endpoints,
    ExchangeFacts,
    ExportFacts,
    ImportFacts,
    SharedServices,
)
from liqod.resources import ForeignCluster

KEY = ("shop", "web")
USABLE = Condition("True", "Ready", "it can be used", 60.0)
ABSENT = Condition("False", "IPFamilyNotSupported", "it has IPv6, which this cluster has not", 60.0)
SILENT = Condition("True", "NothingReached", "nothing gets through to milan", 60.0)
NOBODY = Condition("False", "NoService", "there is no Service of this name", 60.0)
AGREED = Condition("False", "NoConflicts", "all exporters agree", 60.0)
EXPORT = ExportFacts(KEY, 60.0, {"Valid": USABLE, "Ready": USABLE, "Conflict": AGREED})


def imported(here: dict[str, Endpoints], *clusters: str, **more: Any) -> ImportFacts:
    made = ImportFacts(KEY, 60.0, True, "ClusterSetIP", ("10.96.0.9",), USABLE, clusters, here)
    return msgspec.structs.replace(made, **more)


def exchange(shared: bool | None = True, **heard: Endpoints) -> ExchangeFacts:
    return ExchangeFacts("milan", "shop", True, 60.0, shared, frozenset({"web"}), heard)


def told(
    import_: ImportFacts | None,
    *exchanges: ExchangeFacts,
    exports: tuple[ExportFacts, ...] = (EXPORT,),
    peer: PeerSight | None = None,
) -> ServiceAnswer:
    imports = (import_,) if import_ is not None else ()
    known = SharedServices(exports=exports, imports=imports, exchanges=exchanges)
    found = serviceanswer.answer(known, KEY, "rome", {"milan": peer or PeerSight()})
    assert found is not None
    return found


ONE, LOST = Endpoints(1, 1), Endpoints(2, 0)
OURS = {"rome": ONE}
ALONE = Condition("True", "OwnOnly", "endpoints of this cluster alone are used", 60.0)
OUT = "the Service here leaves its endpoints out, by liqod.io/endpoint-preference"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (told(imported({**OURS, "milan": ONE}, "milan", "rome"), exchange(web=ONE)), ""),
        (
            told(
                imported({**OURS, "milan": LOST}, "milan", "rome"),
                exchange(web=Endpoints(2, 2)),
                peer=PeerSight("connection refused"),
            ),
            "nothing gets through to it, so none is ready: connection refused",
        ),
        (
            told(
                imported({**OURS, "milan": ONE}, "milan", "rome", kept=SILENT),
                exchange(web=ONE),
                peer=PeerSight("nothing comes back"),
            ),
            "nothing gets through to it: nothing comes back",
        ),
        (
            told(imported(OURS, "milan", "rome"), exchange(web=Endpoints())),
            "it tells of no endpoint: its Service has no pods that it can tell",
        ),
        (
            told(imported({**OURS, "milan": LOST}, "milan", "rome"), exchange(web=LOST)),
            "of its 2 pods none is ready there",
        ),
        (told(imported(OURS, "milan", "rome", preference=ALONE), exchange(web=ONE)), OUT),
        (
            told(imported(OURS, "milan", "rome", preference=ALONE), exchange(web=LOST)),
            "of its 2 pods none is ready there",
        ),
        (
            told(imported({}, "milan", "rome", ready=ABSENT), exchange(web=ONE)),
            "it has IPv6, which this cluster has not",
        ),
        (
            told(
                imported(OURS, "milan", "rome"),
                exchange(web=ONE),
                peer=PeerSight("", "none"),
            ),
            "1 pod there, and this cluster does not reach its pods",
        ),
        (
            told(imported(OURS, "milan", "rome"), exchange(web=ONE)),
            "it tells of 1 ready pod, and none is taken here",
        ),
        (told(imported(OURS, "rome"), exchange()), "it does not export it"),
        (told(imported(OURS, "rome"), exchange(None)), "it has not answered what is told it"),
        (told(imported(OURS, "rome"), exchange(False)), "it does not share the namespace shop"),
        (told(imported(OURS, "rome")), "the namespace shop is not shared by both clusters"),
    ],
)
def test_why_a_peer_has_no_ready_endpoint(found: ServiceAnswer, why: str):
    own, peer = found.clusters
    assert (own.cluster, peer.cluster, peer.why) == ("rome", "milan", why)
    assert bool(peer.remedy) == (why not in ("", OUT, "it does not export it"))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (told(imported(OURS, "rome")), ""),
        (told(imported({"rome": LOST}, "rome")), "of its 2 pods none is ready"),
        (told(imported({}, "rome")), "its Service has no pods"),
        (told(imported({"milan": ONE}, "milan"), exports=()), "it does not export it"),
        (told(None), "its export is not in the import"),
    ],
)
def test_why_this_cluster_has_none(found: ServiceAnswer, why: str):
    assert found.clusters[0].why == why
    assert found.ready == (not why or found.clusters[1].ready > 0)


def test_endpoints_that_are_kept_are_told_as_such():
    found = imported({"milan": ONE}, "milan", kept=SILENT)
    answer = told(found, exchange(web=ONE), exports=(), peer=PeerSight("nothing comes back"))
    assert answer.said == (
        "ServiceImport: liqod.io/EndpointsKept is True: NothingReached: "
        "nothing gets through to milan",
    )
    assert "1 of 1 endpoint ready; nothing gets through to it: nothing comes back" in "\n".join(
        service_text(answer)
    )


def by_way(
    import_: ImportFacts | None, *, down: str = "", passed: bool | None = None, **heard: Endpoints
) -> ServiceAnswer:
    """The answer about a Service that turin shares by way of milan."""
    names = {f"{name}.turin": each for name, each in heard.items()}
    told_ = {} if passed is None else {"web.turin": passed}
    more = {"heard": names, "relayed": dict.fromkeys(names, ""), "passed": told_}
    return told(import_, msgspec.structs.replace(exchange(), **more), peer=PeerSight(down))


THIRD = imported({**OURS, "turin": ONE}, "rome", "turin", ways={"turin": "milan"})
DEAD = imported({**OURS, "turin": LOST}, "rome", "turin", ways={"turin": "milan"})
NOT_TOLD = "it has not taken this cluster's export, whose Ready says why"


@pytest.mark.parametrize(
    ("found", "ready", "why"),
    [
        (by_way(THIRD, web=ONE), 1, "by way of milan"),
        (by_way(THIRD, web=ONE, passed=True), 1, "by way of milan"),
        (by_way(THIRD, web=ONE, passed=False), 1, f"by way of milan; {NOT_TOLD}"),
        (by_way(None, passed=True), 0, "by way of milan, which tells no export of it"),
        (by_way(None, web=ONE), 0, "by way of milan; its export is left out"),
        (
            by_way(DEAD, web=ONE, down="it is silent"),
            0,
            "by way of milan, to which nothing gets through: it is silent",
        ),
        (by_way(DEAD, web=LOST), 0, "by way of milan: of its 2 pods none is ready there"),
        (by_way(DEAD, web=Endpoints()), 0, "by way of milan, which tells no endpoint of it"),
        (
            by_way(imported(OURS, "rome", "turin", ways={"turin": "milan"}), web=ONE),
            0,
            "by way of milan: it tells of 1 ready pod, and none is taken here",
        ),
    ],
)
def test_a_cluster_that_is_no_peer_is_named_with_the_one_between(
    found: ServiceAnswer, ready: int, why: str
):
    third = found.clusters[-1]
    assert [each.cluster for each in found.clusters] == ["rome", "milan", "turin"]
    assert (third.by_way, third.ready, third.why) == ("milan", ready, why)
    lines = list(service_text(found))
    assert any(line.startswith("  turin: ") and "by way of milan" in line for line in lines)


def test_an_export_by_way_of_a_peer_that_is_not_imported_has_an_answer():
    heard = msgspec.structs.replace(
        exchange(), heard={"web.turin": ONE}, relayed={"web.turin": "{}"}
    )
    found = told(None, heard, exports=())
    assert (found.type, found.clusters[-1].cluster) == ("", "turin")


def test_of_another_service_by_way_of_a_peer_nothing_is_said():
    assert [each.cluster for each in by_way(imported(OURS, "rome"), db=ONE).clusters] == [
        "rome",
        "milan",
    ]


@pytest.mark.parametrize(
    ("path", "type_", "status", "down"),
    [
        ("tunnel", "NetworkConnectionStatus", "Error", "told"),
        ("tunnel", "NetworkConnectionStatus", "Established", ""),
        ("tunnel", "APIServerStatus", "Error", ""),
        ("routed", "APIServerStatus", "Error", "told"),
        ("routed", "NetworkConnectionStatus", "Error", ""),
    ],
)
def test_the_carrier_of_packets_decides_whether_a_peer_is_down(
    path: str, type_: str, status: str, down: str
):
    found = msgspec.convert(
        {
            "metadata": {"name": "milan", "annotations": {"liqod.io/pod-network": path}},
            "status": {"conditions": [{"type": type_, "status": status, "message": "told"}]},
        },
        ForeignCluster,
    )
    assert serviceanswer.peer_sight(found) == PeerSight(down, path)


def test_a_name_of_nobody_has_no_answer():
    assert serviceanswer.answer(SharedServices(), KEY, "rome", {}) is None


def test_the_answer_as_text():
    export = msgspec.structs.replace(EXPORT, conditions={"Valid": NOBODY, "Conflict": AGREED})
    found = told(imported({"milan": ONE}, "milan"), exchange(web=ONE), exports=(export,))
    home = f"{derived_name(KEY)}.shop.svc.cluster.local"
    assert list(service_text(found)) == [
        "shop/web: ClusterSetIP 10.96.0.9, as web.shop.svc.clusterset.local",
        "  ServiceExport: Valid is False: NoService: there is no Service of this name",
        "  rome: its export is not in the import → the conditions above say why",
        "  milan: 1 of 1 endpoint ready",
        "  where CoreDNS has no option `multicluster`: rewrite name exact"
        f" web.shop.svc.clusterset.local {home}",
    ]


def test_a_headless_one_is_not_rewritten():
    assert told(imported(OURS, "rome", type="Headless", ips=())).rewrite == ""


def test_the_sums_count_a_name_once_although_two_exchanges_have_it():
    other = msgspec.structs.replace(exchange(web=ONE), asked=False)
    known = SharedServices(exports=(EXPORT,), exchanges=(exchange(web=ONE, db=ONE), other))
    assert sums(known) == ServicesRow(1, 0, (PeerShare("milan", 1, 1, 2),))
    assert sums(SharedServices()) is None
    assert sums(None) is None


def test_status_has_a_line_for_each_peer():
    row = ServicesRow(1, 2, (PeerShare("milan", 1, 1, 2),))
    view = Overview("rome", "running", "reachable", (), (), (), (), services=row)
    assert (
        "\nServices of the set: 1 exported, 2 imported\n"
        "  milan: 1 told it of 1 namespace, 2 told by it\n"
    ) in render(view, now=0.0)


@pytest.mark.parametrize(
    ("preference", "said"),
    [
        (ALONE, "ServiceImport: OwnOnly: endpoints of this cluster alone are used"),
        (
            Condition("False", "NodesWithoutZone", "2 nodes without the label", 60.0),
            "ServiceImport: liqod.io/EndpointPreference is False: NodesWithoutZone: 2 nodes "
            "without the label",
        ),
    ],
)
def test_what_came_of_the_wish_for_endpoints_is_said(preference: Condition, said: str):
    assert told(imported(OURS, "rome", preference=preference)).said == (said,)
