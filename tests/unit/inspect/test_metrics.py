"""Names follow Prometheus' conventions, and the dashboard reads nothing that is not there."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from liqod.inspect.components import requests
from liqod.inspect.metrics import FAMILIES, render
from liqod.install import workload
from liqod.kube.http.transport import ClientStats
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.facts import ClusterFacts, LinkFacts, PeerFacts, Report
from liqod.runtime.account import KUBELET_STRANGERS, SHARES, TENANTS, Account
from liqod.telemetry.histogram import Histogram
from tests.unit.model.states import failing

DEPLOY = Path(__file__).parents[3] / "deploy"
MONITORING = DEPLOY / "monitoring.yaml"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana-dashboard.json"


def inspector(**more: Any) -> Any:
    """As much of an inspector as a scrape reads, with more facts of its peer."""
    stats = ClientStats()
    stats.requests["get", "pods"] += 3
    stats.answers["get", "pods", 200] += 2
    stats.answers["get", "pods", 0] += 1
    took = stats.took["get"] = Histogram()
    for seconds in (0.1, 0.3, 100.0):
        took.add(seconds)
    cluster = ClusterFacts(
        now=0.0,
        lag=0.1,
        process=ProcessFacts(cluster_id="rome", state="leading", rss=7),
        requests=requests(SimpleNamespace(stats=stats)),  # type: ignore[arg-type]
    )
    milan = PeerFacts(
        now=0.0,
        peer="milan",
        cluster=cluster,
        link=LinkFacts(rtt=0.002, p50=0.001),
        pods_out=2,
        pods_in=1,
    )
    report = Report(cluster, {"milan": msgspec.structs.replace(milan, **more)})
    return SimpleNamespace(
        callers=Account(files=1024),
        stream=(),
        facts=SimpleNamespace(report=lambda: report),
        doctor=SimpleNamespace(ladders={"milan": failing("milan", "api")}),
    )


def test_a_scrape_has_what_there_is():
    text, kind = render(inspector(), "")
    assert kind.startswith("text/plain")
    lines = text.decode().splitlines()
    assert "liqod_leader 1.0" in lines
    assert 'liqod_peer_round_trip_seconds{peer="milan"} 0.002' in lines
    assert 'liqo_peer_latency_us{cluster_id="milan",driver="api"} 2000.0' in lines
    said = 'liqod_api_requests_total{code="%s",peer="",resource="pods",verb="get"} %s'
    assert said % ("200", "2.0") in lines
    assert said % ("none", "1.0") in lines
    took = 'liqod_api_request_duration_seconds_%s{%speer="",verb="get"} %s'
    assert took % ("bucket", 'le="0.1",', "1.0") in lines
    assert took % ("bucket", 'le="+Inf",', "3.0") in lines
    assert took % ("count", "", "3.0") in lines
    assert 'liqod_check_ok{layer="api",peer="milan"} 0.0' in lines
    assert 'liqod_peer_pods{direction="in",peer="milan"} 1.0' in lines


def test_a_scrape_says_how_full_each_face_is_and_who_was_refused():
    looked = inspector()
    strangers = looked.callers[KUBELET_STRANGERS]
    came = [strangers.enter(each) for each in ("10.0.0.1", "127.0.0.1", *["8.8.8.8"] * 20)]
    assert came[0] is not None
    assert came[0].weigh(7)
    assert not came[0].weigh(5 << 20)
    for _ in range(looked.callers[TENANTS].of_one + 2):
        looked.callers[TENANTS].enter("milan")
    lines = render(looked, "")[0].decode().splitlines()
    face = 'face="kubelet-strangers"'
    assert f"liqod_places{{{face}}} 16.0" in lines
    assert f"liqod_places_taken{{{face}}} 16.0" in lines
    assert f"liqod_places_of_one{{{face}}} 16.0" in lines
    assert f"liqod_places_held_limit_bytes{{{face}}} 4.194304e+06" in lines
    refused = "liqod_places_refused_total"
    assert f'{refused}{{{face},reason="full",source="public"}} 6.0' in lines
    assert f'{refused}{{{face},reason="memory",source="private"}} 1.0' in lines
    assert f'{refused}{{face="tenants",reason="source",source="key"}} 2.0' in lines
    assert len([each for each in lines if each.startswith("liqod_places_taken{")]) == len(SHARES)


def test_openmetrics_is_served_to_those_who_ask_for_it():
    text, kind = render(inspector(), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions(family):
    assert re.fullmatch(r"(liqod|liqo|process)_[a-z_]+", family.name)
    assert not family.name.endswith("_total"), "the library adds it to counters"
    assert family.help.endswith(".")
    if family.kind == "counter" and family.name.startswith("liqod"):
        assert family.sample.endswith("_total")


def test_what_liqo_dashboards_read_is_there():
    names = {family.sample for family in FAMILIES}
    assert names >= {
        "liqo_peer_receive_bytes_total",
        "liqo_peer_transmit_bytes_total",
        "liqo_peer_latency_us",
        "liqo_peer_is_connected",
        "liqo_virtual_kubelet_reflection_item_counter",
        "liqo_virtual_kubelet_reflection_error_counter",
    }


def test_the_dashboard_reads_only_what_is_served():
    dashboard = json.loads(DASHBOARD.read_text())
    read = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    read += [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    served = {family.sample for family in FAMILIES}
    known = {label for family in FAMILIES for label in family.labels} | {"instance"}
    named = set(re.findall(r"\b(?:liqod|liqo|process)_[a-z_]+", " ".join(read)))
    assert len(named) > 10
    assert named <= served
    for expression in read:
        labels = re.findall(r"([a-z_]+)=~", expression)
        labels += (
            re.findall(r"by \(([^)]*)\)", expression)[0].split(", ")
            if " by (" in expression
            else []
        )
        assert set(labels) <= known, expression


def test_alerts_read_only_what_is_served_and_are_explained():
    *_, rules = yaml.safe_load_all(MONITORING.read_text())
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    served = {family.sample for family in FAMILIES}
    known = {label for family in FAMILIES for label in family.labels}
    page = PAGE.read_text()
    for rule in alerts:
        named = set(re.findall(r"\b(?:liqod|liqo|process)_[a-z_]+", rule["expr"]))
        assert named
        assert named <= served, rule["alert"]
        said = json.dumps(rule["annotations"])
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= known, rule["alert"]
        assert f"| `{rule['alert']}` |" in page
    assert set(re.findall(r"`(Liqod\w+)`", page)) == {rule["alert"] for rule in alerts}


def test_what_the_page_names_is_served():
    named = set(re.findall(r"`(liqod_[a-z_]+)`", PAGE.read_text()))
    served = {family.sample for family in FAMILIES}
    assert len(named) > 10
    assert {each for each in named if not each.endswith("_")} <= served


def test_what_is_scraped_in_the_cluster_is_a_port_of_the_pod():
    monitor, *_ = yaml.safe_load_all(MONITORING.read_text())
    made = workload.workload("liqo", "liqod:1", 1, "liqod", nodes_image="liqod:1-node")
    (pod,) = [each["spec"]["template"] for each in made if each["kind"] == "Deployment"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports


def test_no_label_has_a_space_and_histograms_add_up():
    text, _ = render(inspector(), "")
    for value in re.findall(r'="([^"]*)"', text.decode()):
        assert " " not in value
    one, other = Histogram(), Histogram()
    one.add(0.1)
    other.add(100.0)
    one.merge(other)
    assert dict(one.buckets()) | {"+Inf": 2.0, "0.1": 1.0, "0.025": 0.0} == dict(one.buckets())
    assert one.total == 100.1
