"""The chart by real Helm: what it renders is what `liqod install` makes, and its releases come and
go."""

from __future__ import annotations

import base64
import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from deploy import release
from deploy.chart import CHART, KEPT
from deploy.charthooks import HOOK
from liqod.apimachinery.labels import PLUGIN
from liqod.config import parse
from liqod.install.manifests import Options, printable
from liqod.install.plugingrants import Declared, here
from liqod.resources.crdmanifests import crd_manifests
from tests.cluster.test_install import DEFINITIONS, fresh
from tests.testbed import inventory, programs
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.netns import Networks, doorway
from tests.testbed.processes import plain_environment
from tests.testbed.wheels import Installation
from tests.unit.plugins.test_overreach import GOOD

pytestmark = [pytest.mark.cluster, pytest.mark.release]

Identity = tuple[str, str, str]
DEADLINE = 120
DEPLOYMENT = "/apis/apps/v1/namespaces/liqo/deployments/liqod"
NODES = "/apis/apps/v1/namespaces/liqo-nodes/daemonsets/liqod-node"
SECRET = "/api/v1/namespaces/liqo/secrets/liqod"
RELEASES = "sh.helm.release.v1.liqod"


class Helm:
    """Helm of one major version.

    Args:
        program: its path.
        home: a folder for what it keeps.

    Attributes:
        enter: the command that starts it elsewhere, in a network namespace.
    """

    def __init__(self, program: str, home: Path) -> None:
        self._program = program
        self._home = home
        self.enter: tuple[str, ...] = ()

    def run(
        self, *arguments: str, check: bool = True, within: float = DEADLINE
    ) -> subprocess.CompletedProcess[str]:
        """Runs it; raises `TestbedError` on failure."""
        answer = subprocess.run(
            [*self.enter, self._program, *arguments],
            env={**plain_environment(), "HOME": str(self._home)},
            capture_output=True,
            text=True,
            timeout=within,
        )
        if check and answer.returncode:
            raise TestbedError(f"helm {' '.join(arguments)}: {answer.stderr}")
        return answer

    def start(self, member: Member, *arguments: str) -> subprocess.Popen[bytes]:
        """Begins it at a cluster, as its administrator, and does not wait."""
        where = ("--kubeconfig", str(member.plane.kubeconfig), "--namespace", "liqo")
        return subprocess.Popen(
            [self._program, *arguments, *where],
            env={**plain_environment(), "HOME": str(self._home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def template(self, *arguments: str, namespace: str = "liqo") -> str:
        """What the chart renders in the cluster `rome`."""
        named = ("--namespace", namespace, "--set", "clusterID=rome")
        return self.run("template", "liqod", str(CHART), *named, *arguments).stdout

    def at(
        self, member: Member, *arguments: str, check: bool = True, within: float = DEADLINE
    ) -> str:
        """What it prints of a cluster, as its administrator; of a failure, what that says."""
        where = ("--kubeconfig", str(member.plane.kubeconfig), "--namespace", "liqo")
        answer = self.run(*arguments, *where, check=check, within=within)
        return answer.stdout if check else answer.stderr


@pytest.fixture(params=programs.HELMS, ids="helm{}".format)
def helm(request: pytest.FixtureRequest, helms: dict[int, str], tmp_path: Path) -> Helm:
    """Each major version of Helm."""
    return Helm(helms[request.param], tmp_path)


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """A cluster into which nothing is installed yet, and which each test leaves like that."""
    yield from fresh("genoa", 9)


def objects(documents: list[dict[str, Any]]) -> dict[Identity, dict[str, Any]]:
    """Manifests by kind, namespace and name, without what only Helm reads; Secrets as text."""
    found = {}
    for each in documents:
        metadata = each["metadata"]
        metadata.get("annotations", {}).pop(KEPT, None)
        if each["kind"] == "Secret" and "data" in each:
            data = each.pop("data")
            each["stringData"] = {
                key: base64.b64decode(text).decode() for key, text in data.items()
            }
        found[each["kind"], metadata.get("namespace", ""), metadata["name"]] = each
    assert len(found) == len(documents)
    return found


def rendered(text: str) -> dict[Identity, dict[str, Any]]:
    """What Helm rendered of the release, which hooks are not."""
    documents = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    return objects([each for each in documents if not is_hook(each)])


def is_hook(manifest: dict[str, Any]) -> bool:
    return HOOK in manifest["metadata"].get("annotations", {})


def installed(options: Options) -> dict[Identity, dict[str, Any]]:
    """What `liqod install --in-cluster` prints, but the namespace of the release."""
    made = objects(printable(options, crd_manifests()))
    del made["Namespace", "", options.namespace]
    return made


CASES: dict[str, tuple[tuple[str, ...], Options]] = {
    "nothing": ((), Options()),
    "without networks": (
        ("--set", "networking.enabled=false", "--set", "replicas=2"),
        Options(network=False, replicas=2),
    ),
    "everything": (
        (
            *("--set", "storage=true,clusterProfiles=true,image=registry.example/liqod:1"),
            *("--set", "nodeImage=registry.example/node:1"),
            *("--set", "apiServer.address=https://rome.example:6443"),
        ),
        Options(
            storage=True,
            cluster_profiles=True,
            image="registry.example/liqod:1",
            node_image="registry.example/node:1",
            server="https://rome.example:6443",
        ),
    ),
    "another namespace": ((), Options(namespace="joined")),
    "an image without a tag": (
        ("--set", "image=registry.example:5000/liqod"),
        Options(image="registry.example:5000/liqod"),
    ),
    "one architecture": (("--set", "architectures={arm64}"), Options(architectures=("arm64",))),
    "storage alone": (
        ("--set", "storage=true,networking.enabled=false"),
        Options(storage=True, network=False),
    ),
    "services alone": (("--set", "services=true"), Options(services=True)),
    "a DNS server": (
        ("--set", "services=true,dnsServer.enabled=true,dnsServer.image=registry.example/dns:1"),
        Options(services=True, dns_server=True, dns_image="registry.example/dns:1"),
    ),
    "every switch": (
        ("--set", "storage=true,clusterProfiles=true,services=true,dnsServer.enabled=true"),
        Options(storage=True, cluster_profiles=True, services=True, dns_server=True),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_what_an_installation_makes(helm: Helm, case: str) -> None:
    arguments, options = CASES[case]
    wanted = installed(msgspec.structs.replace(options, cluster_id="rome", in_cluster=True))
    text = helm.template(*arguments, namespace=options.namespace)
    found = rendered(text)
    assert found.keys() == wanted.keys()
    for identity, each in wanted.items():
        assert found[identity] == each, identity
    assert text == helm.template(*arguments, namespace=options.namespace)


def test_settings_become_the_daemons_configuration(helm: Helm, tmp_path: Path) -> None:
    settings = {
        "health": {"host": "0.0.0.0", "port": 18000},
        "guests": {"max_bytes": 33554432},
        "certificates": {"renew_at": 0.5},
        "provider": {"node_labels": {"example.com/zone": 'a "b" <c>'}, "storage_classes": []},
        "peers": [{"id": "milan", "pod_cidrs": ["10.1.0.0/16"], "node_labels": {"a.b/c": "d"}}],
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": settings}))
    authority = "-----BEGIN CERTIFICATE-----\nAA==\n"
    ca = tmp_path / "ca.crt"
    ca.write_text(authority)
    found = rendered(
        helm.template(
            *("--values", str(values), "--set-file", f"apiServer.ca={ca}"),
            *("--set", "apiServer.address=https://rome.example:6443,storage=true"),
        )
    )
    data = found["Secret", "liqo", "liqod"]["stringData"]
    assert data["api-server-ca.crt"] == authority
    parse(data["liqod.toml"])
    assert tomllib.loads(data["liqod.toml"]) == {
        **settings,
        "api_server": {
            "advertise": "https://rome.example:6443",
            "ca_file": "/etc/liqod/api-server-ca.crt",
        },
        "storage": {"enabled": True},
    }
    pods = found["Deployment", "liqo", "liqod"]["spec"]["template"]
    assert pods["metadata"]["annotations"].keys() == {"checksum/config"}


def test_places_of_pods_can_be_set(helm: Helm) -> None:
    found = rendered(
        helm.template(
            *("--set", "nodeSelector.disk=ssd,priorityClassName=high"),
            *("--set", "imagePullSecrets[0].name=pull,tolerations[0].operator=Exists"),
            *("--set", "resources.limits.memory=1Gi,services=true,dnsServer.enabled=true"),
        )
    )
    spec = found["Deployment", "liqo", "liqod"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["priorityClassName"] == "high"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "50m", "memory": "96Mi"},
        "limits": {"memory": "1Gi"},
    }
    workloads = [one for key, one in found.items() if key[0] in ("Deployment", "DaemonSet")]
    assert len(workloads) == 3
    for each in workloads:
        assert each["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_a_proxy_with_a_password_is_of_a_secret_and_not_of_a_configmap(helm: Helm) -> None:
    found = rendered(helm.template("--set", "networking.proxySecret=proxy"))
    pods = found["DaemonSet", "liqo-nodes", "liqod-node"]["spec"]["template"]
    [node] = pods["spec"]["containers"]
    assert [
        (each["name"], each["valueFrom"]["secretKeyRef"])
        for each in node["env"]
        if each["name"].endswith("_PROXY")
    ] == [
        ("HTTPS_PROXY", {"name": "proxy", "key": "HTTPS_PROXY", "optional": False}),
        ("NO_PROXY", {"name": "proxy", "key": "NO_PROXY", "optional": True}),
    ]
    for backend in ("websocket", "wireguard"):
        named = f"config.plugins.settings.{backend}.proxy"
        helm.template("--set", f"{named}=http://proxy:3128")
        refused = ("--set", f"clusterID=rome,{named}=http://user:PLANTED@proxy:3128")
        where = ("liqod", str(CHART), "--namespace", "liqo")
        said = helm.run("template", *where, *refused, check=False).stderr
        assert f"{named}: " in said
        assert "networking.proxySecret" in said
        assert "PLANTED" not in said


def test_more_objects_come_by_value(helm: Helm) -> None:
    few = rendered(helm.template("--set", "networking.enabled=false"))
    switches = ("serviceMonitor", "prometheusRule", "dashboard")
    told = ",".join(f"monitoring.{each}=true" for each in switches)
    more = rendered(helm.template("--set", f"networking.enabled=false,{told},networkPolicy=true"))
    added = {key: each for key, each in more.items() if key not in few}
    assert added.keys() == {
        ("Service", "liqo", "liqod-metrics"),
        ("ServiceMonitor", "liqo", "liqod"),
        ("PrometheusRule", "liqo", "liqod"),
        ("ConfigMap", "liqo", "liqod-dashboard"),
        ("NetworkPolicy", "liqo", "liqod"),
    }
    named = ("--set", "networking.enabled=false,podDisruptionBudget=false")
    assert few.keys() - rendered(helm.template(*named)).keys() == {
        ("PodDisruptionBudget", "liqo", "liqod")
    }
    [let_in] = added["NetworkPolicy", "liqo", "liqod"]["spec"]["ingress"]
    assert [each["port"] for each in let_in["ports"]] == ["webhook", "kubelet", "health", 6446]
    rules = (CHART.parents[1] / "monitoring.yaml").read_text()
    [wanted] = [one for one in yaml.safe_load_all(rules) if one["kind"] == "PrometheusRule"]
    assert added["PrometheusRule", "liqo", "liqod"]["spec"] == wanted["spec"]
    dashboard = added["ConfigMap", "liqo", "liqod-dashboard"]["data"]["liqod.json"]
    assert yaml.safe_load(dashboard)["panels"]


def test_rights_for_a_plugin_are_those_of_the_command(helm: Helm) -> None:
    [wanted] = here(Declared(GOOD, "package 1"))
    name = wanted["metadata"]["labels"][PLUGIN]
    told = json.dumps({name: wanted["rules"]})
    found = rendered(helm.template("--set-json", f"pluginRights={told}"))
    made = found["ClusterRole", "", wanted["metadata"]["name"]]
    assert made["rules"] == wanted["rules"]
    assert wanted["metadata"]["labels"].items() <= made["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("clusterId=rome", "clusterId"),
        ("clusterID=Rome_1", "clusterID"),
        ("apiServer.address=rome.example:6443", "address"),
        ("monitoring.servicemonitor=true", "servicemonitor"),
        ("config.provider.pod_securty=restricted", "pod_securty"),
        ("config.provider.pod_security=tight", "pod_security"),
        ("replicas=0", "replicas"),
        ("podDisruptionBudget=sometimes", "podDisruptionBudget"),
        ("architectures={arm64,x86_64}", "architectures"),
        ("dnsServer.enabled=true", "so set services"),
        ("services=true,dnsServer.enabled=yes", "enabled"),
        ("clusterset.enabled=true", "name it"),
        ("clusterset.enabled=true,clusterset.name=No_Name", "name"),
        ("pluginRights.a[0].verb={get}", "verb"),
        (
            "pluginRights.a[0].verbs={*},pluginRights.a[0].apiGroups={b},pluginRights.a[0].resources={c}",
            "pluginRights",
        ),
    ],
)
def test_a_wrong_value_is_refused(helm: Helm, value: str, named: str) -> None:
    arguments = ("liqod", str(CHART), "--namespace", "liqo", "--set", f"clusterID=rome,{value}")
    refused = helm.run("template", *arguments, check=False)
    assert refused.returncode != 0
    assert named in refused.stderr


def test_a_place_or_an_id_that_is_missing_is_named(helm: Helm) -> None:
    refused = helm.run("template", "liqod", str(CHART), "--namespace", "liqo", check=False)
    assert "clusterID" in refused.stderr
    refused = helm.run("template", "liqod", str(CHART), "--set", "clusterID=rome", check=False)
    assert "the namespace default is Kubernetes' own" in refused.stderr
    digest = "clusterID=rome,image=registry.example/liqod@sha256:0"
    with_digest = ("template", "liqod", str(CHART), "--namespace", "liqo", "--set", digest)
    assert "nodeImage" in helm.run(*with_digest, check=False).stderr
    helm.run(*with_digest, "--set", "networking.enabled=false")
    old = ("--namespace", "liqo", "--set", "clusterID=rome", "--kube-version", "1.29.9")
    assert ">=1.30.0" in helm.run("template", "liqod", str(CHART), *old, check=False).stderr


def test_helms_own_check_finds_nothing(helm: Helm) -> None:
    values = "clusterID=rome,clusterset.enabled=true,clusterset.name=europe"
    helm.run("lint", "--strict", str(CHART), "--namespace", "liqo", "--set", values)


@pytest.fixture(scope="module")
def packed(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart of a release."""
    ((name, data),) = release.helm(release.Built(installation.built, 0)).items()
    file = tmp_path_factory.mktemp("chart") / name
    file.write_bytes(data)
    return file


def test_a_packed_chart_renders_and_is_installed_with_all_other_networks_cut(
    helm: Helm, member: Member, packed: Path, networks: Networks
) -> None:
    before = member.inventory()
    cut = networks.make("cut")
    port = urlsplit(
        yaml.safe_load(member.plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    ).port
    assert port is not None
    wanted = helm.template()
    helm.enter = ("nsenter", f"--net=/run/netns/{cut}")
    set_id = ("--set", "clusterID=genoa")
    rome = ("--namespace", "liqo", "--set", "clusterID=rome")
    assert helm.run("template", "liqod", str(packed), *rome).stdout == wanted
    with doorway(cut, port):
        helm.at(member, "install", "liqod", str(packed), *set_id, "--create-namespace")
        assert member.api.exists(DEPLOYMENT)
        helm.at(member, "upgrade", "liqod", str(packed), *set_id, "--set", "replicas=2")
        assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 2
        helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)


def configuration(member: Member) -> str:
    """The daemon's configuration in the cluster."""
    return base64.b64decode(member.api.get(SECRET)["data"]["liqod.toml"]).decode()


def test_a_release_comes_changes_goes_back_and_goes(helm: Helm, member: Member) -> None:
    before = member.inventory()
    named = (str(CHART), "--set", "clusterID=genoa")
    asked = ("--create-namespace", "--set", "monitoring.serviceMonitor=true")
    said = helm.at(member, "install", "liqod", *named, *asked, check=False)
    assert 'no matches for kind "ServiceMonitor"' in said
    inventory.wait_for(member.api, before, 60)
    helm.at(member, "install", "liqod", *named, "--create-namespace")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 1
    assert member.api.exists(NODES)
    assert configuration(member) == ""
    change = "replicas=2,networking.enabled=false,config.provider.pod_security=restricted"
    helm.at(member, "upgrade", "liqod", *named, "--set", change)
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 2
    assert not member.api.exists(NODES)
    assert configuration(member) == '[provider]\npod_security = "restricted"\n'

    helm.at(member, "rollback", "liqod", "1")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 1
    assert member.api.exists(NODES)
    assert configuration(member) == ""

    refused = member.liqod("install", "--cluster-id", "genoa", check=False)
    assert "Helm has installed liqod here (release liqod in the namespace liqo)" in refused.stderr
    refused = member.liqod("uninstall", "--yes", check=False)
    assert "helm uninstall liqod" in refused.stderr

    # The Job of the hook has no node here: tests/cluster/test_chart_uninstall.py has one.
    helm.at(member, "uninstall", "liqod", "--no-hooks")
    assert member.names(DEFINITIONS), "with them all objects would go"
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)


def test_helm_4_goes_on_with_a_release_of_helm_3(
    helms: dict[int, str], member: Member, tmp_path: Path
) -> None:
    older, newer = (Helm(helms[major], tmp_path / str(major)) for major in (3, 4))
    before = member.inventory()
    named = (str(CHART), "--set", "clusterID=genoa")
    older.at(member, "install", "liqod", *named, "--create-namespace")
    newer.at(member, "upgrade", "liqod", *named, "--set", "replicas=2,networking.enabled=false")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 2
    assert not member.api.exists(NODES)

    # One that is broken off: no pod gets ready here, so it would wait.
    started = newer.start(member, "upgrade", "liqod", *named, "--set", "replicas=3", "--wait")
    member.comes_to(DEPLOYMENT, lambda one: one["spec"]["replicas"] == 3)
    started.kill()
    started.communicate()
    refused = newer.at(member, "upgrade", "liqod", *named, "--set", "replicas=3", check=False)
    assert "another operation (install/upgrade/rollback) is in progress" in refused
    newer.at(member, "rollback", "liqod", "1")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 1
    assert member.api.exists(NODES)
    newer.at(member, "upgrade", "liqod", *named, "--set", "replicas=3")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 3

    # A cluster has one installation.
    where = ("--kubeconfig", str(member.plane.kubeconfig), "--namespace", "other")
    second = newer.run("install", "second", *named, *where, "--create-namespace", check=False)
    assert "invalid ownership metadata" in second.stderr
    assert 'current value is "liqod"' in second.stderr
    assert not member.api.exists("/api/v1/namespaces/other")

    newer.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)


def test_where_a_command_has_installed_helm_says_so(helm: Helm, member: Member) -> None:
    member.liqod("install", "--cluster-id", "genoa")
    named = (str(CHART), "--set", "clusterID=genoa")
    refused = helm.at(member, "install", "liqod", *named, check=False)
    assert "invalid ownership metadata" in refused
    assert member.api.exists("/apis/apps/v1/namespaces/liqo/deployments/liqo-controller-manager")
    member.liqod("uninstall", "--yes", "--purge")
    assert not member.names(DEFINITIONS)


@pytest.mark.timeout(600)
def test_an_installation_that_is_broken_off_is_taken_out_and_done_again(
    helm: Helm, member: Member
) -> None:
    before = member.inventory()
    named = (str(CHART), "--set", "clusterID=genoa")
    # No pod gets ready here, so it would wait.
    started = helm.start(member, "install", "liqod", *named, "--create-namespace", "--wait")
    wait_until("the daemon", lambda: member.api.exists(DEPLOYMENT), 60)
    started.kill()
    started.communicate()
    refused = helm.at(member, "upgrade", "--install", "liqod", *named, check=False)
    assert "another operation (install/upgrade/rollback) is in progress" in refused
    helm.at(member, "uninstall", "liqod", "--no-hooks")
    helm.at(member, "install", "liqod", *named)
    assert "STATUS: deployed" in helm.at(member, "status", "liqod")
    helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)


@pytest.mark.timeout(600)
def test_helm_takes_over_what_a_command_has_installed_and_gives_it_back(
    helm: Helm, member: Member
) -> None:
    before = member.inventory()
    command = ("install", "--in-cluster", "--cluster-id", "genoa", "--timeout", "20")

    def is_installed() -> bool:
        # No pod gets ready here, so it waits in the end.
        member.liqod(*command, "--advertise", "https://genoa.example:6443", check=False)
        return member.api.exists(DEPLOYMENT)

    wait_until("an installation by the command", is_installed, 120)
    definition = f"{DEFINITIONS}/tenants.authentication.liqo.io"
    first = member.api.get(definition)["metadata"]["uid"]
    forced = ("--force-conflicts",) * helm.run("version", "--short").stdout.startswith("v4")
    named = (str(CHART), "--set", "clusterID=genoa,config.provider.pod_security=restricted")
    helm.at(member, "install", "liqod", *named, "--take-ownership", *forced)
    assert configuration(member) == '[provider]\npod_security = "restricted"\n'
    helm.at(member, "upgrade", "liqod", *named, "--set", "replicas=2", *forced)
    helm.at(member, "upgrade", "liqod", *named, "--set", "replicas=3")
    assert member.api.get(DEPLOYMENT)["spec"]["replicas"] == 3

    helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("install", "--cluster-id", "genoa")
    assert member.api.get(definition)["metadata"]["uid"] == first, "all objects would have gone"
    member.liqod("uninstall", "--yes", "--purge")
    inventory.wait_for(member.api, before, 60)


def test_beside_liqo_the_chart_says_how_to_go_on(
    helm: Helm, member: Member, tmp_path: Path
) -> None:
    before = inventory.take(member.api)
    of_liqo = [each for each in crd_manifests() if not each["spec"]["group"].endswith("liqod.io")]
    file = tmp_path / "liqo.yaml"
    file.write_text(yaml.safe_dump_all(of_liqo))
    member.plane.kubectl("apply", "--server-side", "-f", str(file))
    member.plane.kubectl("wait", "--for", "condition=Established", "-f", str(file))
    there = inventory.take(member.api)
    named = (str(CHART), "--set", "clusterID=genoa", "--create-namespace")
    refused = helm.at(member, "install", "liqod", *named, check=False)
    assert "where Liqo runs, `liqod migrate --dry-run` shows" in refused
    assert inventory.take(member.api) == there
    member.plane.kubectl("delete", "-f", str(file))
    inventory.wait_for(member.api, before, 60)


PROPERTIES = "/apis/about.k8s.io/v1alpha1/clusterproperties"


def test_the_ids_of_a_set_come_change_and_go_with_the_release(helm: Helm, member: Member) -> None:
    before = member.inventory()
    named = (
        str(CHART),
        "--set",
        "clusterID=genoa,networking.enabled=false,clusterset.enabled=true",
    )
    helm.at(
        member, "install", "liqod", *named, "--set", "clusterset.name=asia", "--create-namespace"
    )
    helm.at(member, "upgrade", "liqod", *named, "--set", "clusterset.name=europe")
    found = {
        each["metadata"]["name"]: each["spec"]["value"]
        for each in member.api.get(PROPERTIES)["items"]
    }
    assert found == {"cluster.clusterset.k8s.io": "genoa", "clusterset.k8s.io": "europe"}
    assert "ids of the set" in (said := member.liqod("doctor", check=False).stdout)
    assert "genoa in 'europe'" in said

    helm.at(member, "uninstall", "liqod", "--no-hooks")
    assert member.api.get(PROPERTIES)["items"] == []
    # Of another program, which Helm leaves.
    made = {"apiVersion": "about.k8s.io/v1alpha1", "kind": "ClusterProperty"}
    others = {**made, "metadata": {"name": "clusterset.k8s.io"}, "spec": {"value": "africa"}}
    member.create(PROPERTIES, others)
    refused = ("install", "liqod", *named, "--set", "clusterset.name=asia")
    assert "invalid ownership metadata" in helm.at(member, *refused, check=False)
    assert member.api.get(f"{PROPERTIES}/clusterset.k8s.io")["spec"] == others["spec"]

    member.plane.kubectl("delete", "clusterproperty", "clusterset.k8s.io")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)
