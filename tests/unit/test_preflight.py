"""Facts that the daemon finds out about its own cluster, and those that it waits for."""

from types import SimpleNamespace

import pytest

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.cluster import preflight
from liqod.errors import Forbidden, NotFound, Unreachable
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.selection import EVERY

SERVER = "https://127.0.0.1:6443"


class Api:
    """The client of an API server that answers for its ServiceCIDRs as it is set to."""

    server = SERVER

    def __init__(self, *answers):
        self._answers = iter(answers)

    async def raw(self, method, path):
        return SimpleNamespace(body=b'{"gitVersion": "v1.35.4"}')

    async def find(self, kind, name, namespace=None, **more):
        return None

    async def list(self, kind, selection=EVERY, **more):
        if kind == CONFIG_MAPS:
            return [{"data": {labels.CLUSTER_ID_FIELD: "rome"}}]
        if kind != preflight.SERVICE_CIDRS:
            return []
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return [{"spec": {"cidrs": answer}}]


async def discover(api):
    waited: list[str] = []
    facts = await preflight.discover(api, Credentials(SERVER), config.parse(""), waited.append)
    return facts, waited


async def test_networks_that_cannot_be_read_now_are_waited_for(autojump_clock):
    facts, waited = await discover(Api(Unreachable("gone"), Unreachable("gone"), ["10.96.0.0/12"]))
    assert facts.addressing.service_cidrs == ("10.96.0.0/12",)
    assert waited == ["gone"]
    assert facts.node_address == "127.0.0.1"


@pytest.mark.parametrize("answer", [NotFound("no such kind"), Forbidden("no such right")])
async def test_a_server_need_not_tell_its_service_networks(answer):
    facts, waited = await discover(Api(answer))
    assert facts.addressing.service_cidrs == ()
    assert waited == []


def test_inside_a_cluster_its_address_is_nothing_for_peers(monkeypatch):
    monkeypatch.setattr(preflight, "in_cluster", lambda _: True)
    found = Credentials(server="https://10.96.0.1:443")
    assert "inside its cluster" in preflight.advertised(found, config.parse("")).problem
    said = config.parse("", advertise="https://milan.example:6443")
    told = preflight.advertised(found, said)
    assert (told.server, told.problem) == ("https://milan.example:6443", "")
