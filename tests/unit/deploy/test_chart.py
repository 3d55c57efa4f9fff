"""The chart in the repository is made of the manifests, and its schema knows every value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from deploy import chart, chartschema
from liqod.install import clusterproperties
from liqod.install.manifests import MANAGED, Options, daemon_manifests
from liqod.install.refusals import RESERVED
from liqod.install.workload import IMAGE, stand_in

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text())
PARTS = {"apiServer", "networking", "dnsServer", "clusterset", "monitoring"}
"""Values that have values of their own."""
SCHEMA = chartschema.schema()
BY_HAND = {
    "values.yaml",
    "templates/_helpers.tpl",
    "templates/NOTES.txt",
    "templates/checks.yaml",
    "templates/extras.yaml",
}


def test_the_chart_is_that_of_the_manifests():
    for name, text in chart.files().items():
        assert (chart.CHART / name).read_text() == text, f"{name}: run `make chart`"


def test_the_chart_has_no_other_files():
    there = {
        str(path.relative_to(chart.CHART)) for path in chart.CHART.rglob("*") if path.is_file()
    }
    assert there == BY_HAND | chart.files().keys()


def test_nothing_asks_the_cluster_or_draws_lots():
    for path in chart.CHART.glob("templates/*"):
        actions = "".join(re.findall(r"\{\{.*?\}\}", path.read_text()))
        assert not re.search(r"\b(lookup|rand\w+|uuidv4|now|gen\w+)\b", actions), path
        # A check may end a release, and what is rendered is the same everywhere.
        assert "Capabilities" not in actions or path.name == "checks.yaml"


def test_every_word_became_an_expression():
    assert not any("word-of" in text or "104729" in text for text in chart.files().values())


def test_every_value_is_in_the_schema_and_every_key_of_it_is_a_value():
    values = SCHEMA["properties"]
    assert values.keys() == VALUES.keys() | {"clusterID", "global"}
    for name in PARTS:
        assert values[name]["properties"].keys() - {"global"} == VALUES[name].keys()
    assert SCHEMA["required"] == ["clusterID"]


def test_the_page_has_every_value():
    page = (chart.ROOT / "docs" / "reference" / "chart.md").read_text()
    named = []
    for cell in re.findall(r"^\| (`.*?) \|", page, re.M):
        first, *more = re.findall(r"`(.*?)`", cell)
        named += [first, *(each if each[0] != "." else first.split(".")[0] + each for each in more)]
    wanted = {*VALUES, "clusterID"} - PARTS
    wanted |= {f"{part}.{key}" for part in PARTS for key in VALUES[part]}
    assert sorted(named) == sorted(wanted)


def tables(schema: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema of an object whose keys are known, with the place where it is."""
    if "properties" in schema:
        yield where, schema
        for name, each in schema["properties"].items():
            yield from tables(each, f"{where}.{name}")


def test_no_table_takes_a_key_that_it_does_not_know():
    found = dict(tables(SCHEMA, ""))
    for name, each in SCHEMA["$defs"].items():
        found |= dict(tables(each, name))
    assert {"", ".apiServer", "Config", "GuestSettings", "PeerSettings"} <= found.keys()
    for where, each in found.items():
        assert each["additionalProperties"] is False, where


def test_the_defaults_are_those_of_an_installation():
    [deployment] = [
        each
        for each in daemon_manifests(Options(cluster_id="rome"))
        if each["kind"] == "Deployment"
    ]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert VALUES["resources"] == container["resources"]
    assert VALUES["tolerations"] == pod["tolerations"]
    assert VALUES["replicas"] == Options().replicas
    assert VALUES["networking"]["enabled"] == Options().network
    assert VALUES["storage"] == Options().storage
    assert VALUES["clusterProfiles"] == Options().cluster_profiles
    assert VALUES["clusterset"] == {"enabled": False, "name": Options().clusterset}
    assert VALUES["dnsServer"] == {"enabled": False, "image": Options().dns_image}


def test_the_part_is_chosen_by_the_value_of_its_name():
    about = yaml.safe_load(chart.files()["Chart.yaml"])
    part = yaml.safe_load(chart.files()[f"charts/{chart.PART}/Chart.yaml"])
    [named] = about["dependencies"]
    assert (named["name"], named["version"]) == (part["name"], part["version"])
    assert named["condition"] == f"{chart.PART}.enabled"
    definition = yaml.safe_load(chart.files()[f"charts/{chart.PART}/crds/clusterproperties.yaml"])
    assert definition["metadata"]["name"] == clusterproperties.DEFINITION
    assert clusterproperties.is_ours(definition)


def test_the_image_has_one_name():
    [container] = stand_in("liqo", "")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == Options().image == IMAGE
    assert IMAGE.endswith(f":{yaml.safe_load(chart.files()['Chart.yaml'])['appVersion']}")


def test_what_is_written_by_hand_has_the_names_of_the_installation():
    helpers = (chart.CHART / "templates/_helpers.tpl").read_text()
    labels = yaml.safe_load(helpers.split('define "liqod.labels" -}}')[1].split("{{-")[0])
    assert labels == MANAGED
    pods = yaml.safe_load(helpers.split('define "liqod.pods" -}}')[1].split("{{-")[0])
    [deployment] = [
        each
        for each in daemon_manifests(Options(cluster_id="rome"))
        if each["kind"] == "Deployment"
    ]
    assert pods == deployment["spec"]["selector"]["matchLabels"]
    checks = (chart.CHART / "templates/checks.yaml").read_text()
    assert " ".join(f'"{name}"' for name in RESERVED) in checks
