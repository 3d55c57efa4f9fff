"""The names of the set in a Corefile: what serves them, and the lines that would."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from liqod.model.clusterset import corefile
from liqod.model.clusterset.corefile import Names

KUBEADM = """
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    reload
}
"""
PAGES = Path(__file__).parents[3] / "docs" / "how-to"
LINE = "kubernetes cluster.local in-addr.arpa ip6.arpa"
WANTED = "kubernetes cluster.local clusterset.local in-addr.arpa ip6.arpa"
OPTION = "       multicluster clusterset.local\n"


def page_blocks(language: str = "", page: str = "service-names") -> list[str]:
    """The blocks of code on a page on names of Services of the set."""
    blocks = re.compile(r"^ *```(\w*)\n(.+?)^ *```$", re.MULTILINE | re.DOTALL)
    text = (PAGES / f"{page}.md").read_text()
    return [dedent(block) for of, block in blocks.findall(text) if of == language]


def page_rights() -> list[dict[str, Any]]:
    """The rights that the page gives to CoreDNS."""
    (made,) = (each for each in page_blocks("yaml") if "ClusterRole" in each)
    return list(yaml.safe_load_all(made))


def test_the_page_has_a_corefile_that_serves_them():
    (block,) = (each for each in page_blocks() if each.strip().startswith("kubernetes "))
    found = corefile.read(f".:53 {{\n{block}}}\n")
    assert (found.directive, found.line) == ("multicluster", WANTED)
    (line,) = (each for each in page_blocks() if each.startswith("rewrite "))
    rewritten = KUBEADM.replace("    errors\n", f"    errors\n    {line}")
    assert corefile.read(rewritten).directive == "rewrite"


def test_the_rights_of_the_page_are_those_to_read_imports():
    role, binding = page_rights()
    (rule,) = role["rules"]
    assert rule["resources"] == ["serviceimports"]
    assert rule["verbs"] == ["list", "watch"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_a_corefile_as_kubeadm_makes_it_does_not_serve_them_and_is_told_its_own_lines():
    found = corefile.read(KUBEADM)
    assert (found.directive, found.line, found.wanted) == ("", LINE, WANTED)


def test_with_these_lines_it_serves_them():
    changed = KUBEADM.replace(LINE, WANTED).replace("       ttl 30\n", f"       ttl 30\n{OPTION}")
    found = corefile.read(changed)
    assert (found.directive, found.wanted) == ("multicluster", WANTED)


@pytest.mark.parametrize(
    "changed",
    [
        KUBEADM.replace(LINE, WANTED),  # the zone without the option
        KUBEADM.replace("       ttl 30\n", OPTION),  # CoreDNS refuses it: not its zone
        KUBEADM.replace(LINE, WANTED).replace("       ttl 30\n", f"#{OPTION}"),
        f"# clusterset.local\n{KUBEADM}",
        f"{KUBEADM}\n# multicluster clusterset.local",
        "",
    ],
)
def test_half_of_it_or_a_comment_serves_nothing(changed: str):
    assert corefile.read(changed).directive == ""


@pytest.mark.parametrize(
    ("more", "directive"),
    [
        ("rewrite name web.shop.svc.clusterset.local derived-1.shop.svc.cluster.local", "rewrite"),
        ("forward clusterset.local 10.96.0.77", "forward"),
        ("multicluster clusterset.local", "multicluster plugin"),
    ],
)
def test_another_directive_with_the_zone_is_named(more: str, directive: str):
    changed = KUBEADM.replace("    errors\n", f"    errors\n    {more}\n")
    assert corefile.read(changed).directive == directive


def test_a_server_of_the_zone_alone_is_named():
    stub = "clusterset.local:53 {\n    forward . 10.96.0.77\n}\n"
    assert corefile.read(f"{KUBEADM}{stub}").directive == "server block"


@pytest.mark.parametrize(
    ("zones", "wanted"),
    [
        ((), "kubernetes cluster.local clusterset.local"),
        (("corp.example",), "kubernetes corp.example clusterset.local"),
        (("clusterset.local.", "in-addr.arpa"), "kubernetes clusterset.local in-addr.arpa"),
    ],
)
def test_the_zone_stands_behind_the_clusters_own(zones: tuple[str, ...], wanted: str):
    assert Names(zones=zones).wanted == wanted


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/coredns/coredns:v1.12.1", (1, 12, 1)),
        ("rancher/mirrored-coredns-coredns:1.13.1", (1, 13, 1)),
        ("a.example:5000/coredns:v1.14.0@sha256:00", (1, 14, 0)),
        ("coredns:latest", ()),
        ("coredns@sha256:00", ()),
    ],
)
def test_the_version_is_that_of_the_tag(image: str, version: tuple[int, ...]):
    assert corefile.version_of(image) == version
