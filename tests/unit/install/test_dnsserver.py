"""The objects of the DNS server of its own for the names of the set."""

import pytest

from liqod.errors import ConfigError
from liqod.install import dnsserver, podpolicy
from liqod.model.clusterset import corefile, corefiletext

MADE = {each["kind"]: each for each in dnsserver.manifests("liqo", "example.com/coredns:v1.13.1")}
POD = MADE["Deployment"]["spec"]["template"]["spec"]


def test_its_corefile_serves_the_names_of_the_set_and_asks_nobody():
    text = MADE["ConfigMap"]["data"]["Corefile"]
    (server,) = corefiletext.servers(text)
    assert server.keys == (f"clusterset.local:{dnsserver.PORT}",)
    assert "forward" not in {each.name for each in server.plugins}
    assert corefile.read(text).directive == corefile.OPTION
    assert corefile.read(text).zones == ("clusterset.local",)


def test_its_pods_keep_to_restricted():
    (container,) = POD["containers"]
    context = container["securityContext"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["runAsUser"] > 0
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"]["drop"] == ["ALL"]
    assert set(context["capabilities"]["add"]) <= set(podpolicy.ADDED)
    assert {key for each in POD["volumes"] for key in each} == {"name", "configMap"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & POD.keys()
    assert not any("hostPort" in each for each in container["ports"])


def test_its_service_reaches_its_pods_at_the_port_of_dns():
    spec = MADE["Service"]["spec"]
    labels = MADE["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    assert {(each["port"], each["targetPort"], each["protocol"]) for each in spec["ports"]} == {
        (53, dnsserver.PORT, "UDP"),
        (53, dnsserver.PORT, "TCP"),
    }


@pytest.mark.parametrize("image", ["coredns:v1.12.2", "coredns:latest", "a/dns@sha256:00"])
def test_an_image_that_is_not_known_to_be_old_will_do(image):
    dnsserver.check_image(image)


def test_one_that_is_older_is_refused():
    with pytest.raises(ConfigError, match=r"1\.12\.2 or newer"):
        dnsserver.check_image("registry.example:5000/coredns:1.11.3")
