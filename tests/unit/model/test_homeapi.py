"""Access of pods at a peer to this cluster's API server: which pods, with what, and how."""

from base64 import b64decode
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.model.network.apiaddress import is_api_server, place, remapped_api_server, translated
from liqod.model.network.ranges import ClusterCidrs, Entrance, PeerRanges
from liqod.model.objects import homeapi
from liqod.model.objects.homeapi import HomeApi
from liqod.model.objects.podspec import shadow_spec

NOW = "2026-01-02T03:00:00Z"
TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
FIELDS = {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}
ALIAS = HomeApi(mode="home", host="kubernetes.default", alias="10.70.0.1")


def pod(said: str = "", sources=(TOKEN, {"downwardAPI": FIELDS}), **spec) -> dict[str, Any]:
    notes = {labels.API_SERVER_SUPPORT: said} if said else {}
    volumes = [{"name": "api", "projected": {"sources": list(sources)}}] if sources else []
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "annotations": notes},
        "spec": {"containers": [{"name": "web"}], "volumes": volumes, **spec},
    }


@pytest.mark.parametrize(
    ("mode", "said", "expected"),
    [
        ("none", "", "disabled"),
        ("none", "home", "disabled"),
        ("none", "remote", "remote"),
        ("asked", "", "disabled"),
        ("asked", "home", "home"),
        ("asked", "HOME", "disabled"),
        ("home", "", "home"),
        ("home", "disabled", "disabled"),
        ("home", "remote", "remote"),
        ("home", "anything else", "home"),
    ],
)
def test_who_may(mode, said, expected):
    assert homeapi.access(pod(said), mode) == expected


def test_a_pod_without_a_token_needs_no_way():
    assert homeapi.access(pod("home", sources=()), "home") == "disabled"
    assert homeapi.withheld(pod("home", sources=()), HomeApi(mode="home")) == ""


@pytest.mark.parametrize(
    ("api", "said", "expected"),
    [
        (HomeApi(), "", ""),
        (HomeApi(), "home", "no token of this cluster is given there"),
        (HomeApi(mode="home"), "", "there is no way"),
        (HomeApi(mode="home"), "disabled", ""),
        (ALIAS, "", ""),
    ],
)
def test_who_is_told_that_it_cannot(api, said, expected):
    why = homeapi.withheld(pod(said), api)
    assert why.startswith(expected)
    assert bool(why) is bool(expected)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(3607, 3600), (600, 600), (10, 600), (1 << 32, 3600), (None, 3600), ("x", 3600), (1800, 1800)],
)
def test_no_token_lasts_long_and_none_what_an_api_server_makes_a_year_of(asked, given):
    assert homeapi.life(asked) == given


def test_the_secret_has_the_tokens_the_namespace_of_home_and_liqos_marks():
    (each,) = homeapi.projections(pod())
    assert each == homeapi.Projection("api-3c469e", "", 3600)
    made = homeapi.secret(
        pod(serviceAccountName="robot"), [(each.key, "jwt", "2026-01-02T04:00:00Z")]
    )
    assert made["metadata"] == {
        "name": "web-token",
        "labels": {"offloading.liqo.io/service-account-name": "robot"},
        "annotations": {
            "offloading.liqo.io/service-account-for-pod-name": "web",
            "offloading.liqo.io/service-account-for-pod-uid": "u1",
            "offloading.liqo.io/service-account-expiration": "2026-01-02T04:00:00Z",
        },
    }
    assert {key: b64decode(value) for key, value in made["data"].items()} == {
        "api-3c469e": b"jwt",
        "api-namespace": b"shop",
    }
    assert made["type"] == "Opaque"


def test_a_long_name_is_cut_and_stays_one_of_its_own():
    names = {ids.token_secret("p" * 253), ids.token_secret("p" * 252 + "q")}
    assert len(names) == 2
    assert all(ids.is_dns_subdomain(each) for each in names)


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, None),
        ({labels.SERVICE_ACCOUNT_POD_UID: "another", labels.SERVICE_ACCOUNT_EXPIRATION: NOW}, None),
        ({labels.SERVICE_ACCOUNT_POD_UID: "u1"}, 0.0),
        ({labels.SERVICE_ACCOUNT_POD_UID: "u1", labels.SERVICE_ACCOUNT_EXPIRATION: "soon"}, 0.0),
        # Without a zone: it cannot be compared.
        (
            {
                labels.SERVICE_ACCOUNT_POD_UID: "u1",
                labels.SERVICE_ACCOUNT_EXPIRATION: "2026-01-02T03:30:00",
            },
            0.0,
        ),
        (
            {
                labels.SERVICE_ACCOUNT_POD_UID: "u1",
                labels.SERVICE_ACCOUNT_EXPIRATION: "2026-01-02T03:30:00Z",
            },
            1800.0,
        ),
        # A peer that says it lasts for ever is asked again when it cannot any more.
        (
            {
                labels.SERVICE_ACCOUNT_POD_UID: "u1",
                labels.SERVICE_ACCOUNT_EXPIRATION: "9999-01-02T03:30:00Z",
            },
            3600.0,
        ),
    ],
)
def test_how_long_they_last_by_the_peers_word(notes, expected):
    assert homeapi.left(pod(), notes, NOW) == expected


def test_pods_made_together_are_renewed_apart():
    due = [homeapi.reserve({**pod(), "metadata": {"uid": f"u{n}"}}) for n in range(500)]
    assert 720 <= min(due) < 740
    assert 1060 < max(due) <= 1080
    busiest = max(sum(start <= each < start + 60 for each in due) for start in range(720, 1080))
    assert busiest < 500 / 3


def test_files_are_where_and_as_they_are_at_home():
    projected = {"defaultMode": 420, "sources": [TOKEN, {"downwardAPI": FIELDS}]}
    source = pod()
    source["spec"]["volumes"] = [
        {"name": "api", "projected": projected},
        {"name": "other", "projected": {"sources": [{"downwardAPI": FIELDS}]}},
    ]
    spec = shadow_spec(source, consumer="rome", home=ALIAS)
    api, other = spec["volumes"]
    assert api["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"secret": {"name": "web-token", "items": [{"key": "api-3c469e", "path": "token"}]}},
            {
                "secret": {
                    "name": "web-token",
                    "items": [{"key": "api-namespace", "path": "namespace"}],
                }
            },
        ],
    }
    assert other == {"name": "other", "projected": {"sources": [{"downwardAPI": FIELDS}]}}
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert homeapi.is_mounted({"spec": spec}, "web-token")
    assert not homeapi.is_mounted({"spec": spec}, "other-token")
    assert not homeapi.is_mounted({}, "web-token")


def test_a_group_that_may_read_files_reads_the_token_and_others_do_not():
    spec = shadow_spec(pod(securityContext={"fsGroup": 7}), consumer="rome", home=ALIAS)
    token, namespace = spec["volumes"][0]["projected"]["sources"]
    assert token["secret"]["items"][0]["mode"] == 0o600
    assert "mode" not in namespace["secret"]["items"][0]


def test_containers_find_home():
    source = pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["printer"]}])
    source["spec"]["containers"] = [
        {"name": "web", "env": [{"name": "URL", "value": "https://$(KUBERNETES_SERVICE_HOST)"}]},
        {"name": "own", "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere"}]},
    ]
    source["spec"]["initContainers"] = [{"name": "first"}]
    spec = shadow_spec(source, consumer="rome", home=ALIAS)
    web, own = spec["containers"]
    assert [each["name"] for each in web["env"]][-1] == "URL"
    told = {each["name"]: each["value"] for each in web["env"]}
    assert told["KUBERNETES_SERVICE_HOST"] == "kubernetes.default"
    assert told["KUBERNETES_PORT"] == "tcp://kubernetes.default:443"
    assert {e["value"] for e in own["env"] if e["name"] == "KUBERNETES_SERVICE_HOST"} == {
        "elsewhere"
    }
    assert spec["initContainers"][0]["env"][0]["value"] == "kubernetes.default"
    assert spec["hostAliases"] == [
        {"ip": "1.2.3.4", "hostnames": ["printer"]},
        {"ip": "10.70.0.1", "hostnames": ["kubernetes.default", "kubernetes.default.svc"]},
    ]


def test_by_a_configured_place_no_name_is_told():
    api = remapped_api_server("home", "api.example.org:6443", None)
    spec = shadow_spec(pod(), consumer="rome", home=api)
    told = {each["name"]: each["value"] for each in spec["containers"][0]["env"]}
    assert told["KUBERNETES_SERVICE_HOST"] == "api.example.org"
    assert told["KUBERNETES_SERVICE_PORT"] == "6443"
    assert "hostAliases" not in spec


def test_without_a_way_no_token_goes_and_the_pod_runs():
    for api in (
        HomeApi(),
        HomeApi(mode="home"),
        HomeApi(mode="asked", host="h", alias="10.70.0.1"),
    ):
        spec = shadow_spec(pod(), consumer="rome", home=api)
        assert spec["volumes"][0]["projected"]["sources"] == [{"downwardAPI": FIELDS}]
        assert "env" not in spec["containers"][0]
        assert "hostAliases" not in spec


# --- The way --------------------------------------------------------------------------------------

AT_ROME = PeerRanges(
    own=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/20",)),
    peer=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/20",)),
    seen=ClusterCidrs(("10.71.0.0/16",), ("10.72.0.0/20",)),
    entrances=(
        Entrance("10.70.0.1", "tcp", 6443, "172.20.0.1", 6443),
        Entrance("10.70.0.1", "tcp", 443, "172.20.0.1", 6443),
    ),
)


def test_the_way_is_what_was_opened_for_pods():
    assert remapped_api_server("home", "", AT_ROME) == ALIAS
    closed = PeerRanges(entrances=AT_ROME.entrances[:1])
    assert remapped_api_server("home", "", closed, begun=True) == HomeApi(mode="home", awaited=True)
    assert remapped_api_server("home", "", None) == HomeApi(mode="home")
    assert remapped_api_server("none", "api:1", AT_ROME, begun=True) == HomeApi()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api", ("api", 443)),
        ("api:6443", ("api", 6443)),
        ("[fd00::1]:6443", ("fd00::1", 6443)),
        ("https://api", None),
        ("api:port", None),
        ("api/path", None),
        ("me@api", None),
        ("", None),
    ],
)
def test_places(text, expected):
    assert place(text) == expected


def test_the_provider_writes_the_address_as_its_pods_reach_it():
    spec = shadow_spec(pod(), consumer="rome", home=ALIAS)
    # milan sees rome's external range under the alias that it chose.
    there = translated(spec, AT_ROME)
    assert there["hostAliases"][0]["ip"] == "10.72.0.1"
    assert spec["hostAliases"][0]["ip"] == "10.70.0.1"


@pytest.mark.parametrize(
    "alias",
    [
        {"ip": "192.168.0.1", "hostnames": ["kubernetes.default"]},
        {"ip": "10.70.0.1", "hostnames": ["elsewhere"]},
        {"ip": "nonsense", "hostnames": ["kubernetes.default"]},
        {"ip": 7, "hostnames": ["kubernetes.default"]},
        {"hostnames": ["kubernetes.default"]},
        {"ip": "10.70.0.1", "hostnames": "kubernetes.default"},
        "kubernetes.default",
        None,
    ],
)
def test_what_a_consumer_writes_otherwise_is_left_as_it_is(alias):
    assert translated({"hostAliases": [alias]}, AT_ROME) == {"hostAliases": [alias]}


@pytest.mark.parametrize("spec", [{}, {"hostAliases": None}, {"hostAliases": "x"}])
def test_most_pods_lead_nowhere(spec):
    assert not is_api_server(spec)
    assert translated(spec, AT_ROME) is spec
