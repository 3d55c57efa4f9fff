"""Requirements of a provider that runs Liqo for a handshake, and how they are met."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import SECRETS
from liqod.consumer.identities.clusterkeys import ClusterKeys
from liqod.errors import Forbidden, Invalid
from liqod.identity import certificaterequests, keys
from liqod.kube.selection import EVERY
from liqod.model import ids
from liqod.procedures import tenantrequest
from liqod.procedures.tenantrequest import Sides

PRIVATE = keys.generate()
OWN = ClusterKeys(PRIVATE, keys.public_pem(PRIVATE))
SIGNATURE = b"signature"
NAMESPACE = "liqo-tenant-rome"


class Liqo:
    """A provider's API server with Liqo's webhook: a second Tenant is refused, not found."""

    def __init__(self, *, secrets: dict[str, bytes] | None = None, readable: bool = True) -> None:
        self.tenant: dict[str, Any] | None = None
        self.secrets = dict(secrets or {})
        self.readable = readable
        self.writes: list[str] = []

    async def find(self, kind, name, namespace=None, **_):
        return self.tenant

    async def create(self, kind, body, namespace=None):
        if self.tenant is not None:
            raise Invalid("admission webhook denied the request: one Tenant for each namespace")
        self.writes.append("create")
        self.tenant = body

    async def update(self, kind, body, namespace=None):
        self.writes.append("update")
        self.tenant = body

    async def list(self, kind, selection=EVERY, *, decode: Any = dict):
        assert (kind, selection.labels) == (SECRETS, "liqo.io/remote-cluster-id=rome")
        if not self.readable:
            raise Forbidden("secrets is forbidden")
        made = [
            {"metadata": {"name": name, "uid": name}, "data": {"csr": csr}}
            for name, csr in self.secrets.items()
        ]
        return msgspec.convert(msgspec.to_builtins(made), list[decode], strict=False)

    async def delete(self, kind, name, namespace=None, *, uid=None):
        del self.secrets[name]


def sides(remote: Liqo) -> Sides:
    local: Any = None
    there: Any = remote
    return Sides(local, there, "rome", "milan", "liqo-tenant-milan", NAMESPACE)


async def test_a_tenant_that_is_there_is_found_before_one_is_made():
    liqo = Liqo()
    await tenantrequest.write_tenant(sides(liqo), OWN, SIGNATURE)
    await tenantrequest.write_tenant(sides(liqo), OWN, SIGNATURE)
    await tenantrequest.write_tenant(sides(liqo), OWN, b"of another nonce")
    assert liqo.writes == ["create", "update"]


async def test_a_certificate_that_liqo_kept_for_another_request_goes():
    slice_user = ids.slice_user("milan", "rome")
    kept = {
        "liqo-remote-certificate": certificaterequests.make_csr(PRIVATE, "rome", "liqo.io"),
        "liqo-remote-certificate-milan": certificaterequests.make_csr(PRIVATE, slice_user, "rome"),
    }
    former = certificaterequests.make_csr(keys.generate(), "rome", "liqo.io")
    liqo = Liqo(
        secrets={**kept, "liqo-remote-certificate-old": former, "liqo-nonce": b"not a request"}
    )
    await tenantrequest.write_tenant(sides(liqo), OWN, SIGNATURE)
    assert set(liqo.secrets) == {*kept, "liqo-nonce"}
    # Of a peering that exists nothing is touched.
    liqo.secrets["liqo-remote-certificate"] = former
    await tenantrequest.write_tenant(sides(liqo), OWN, SIGNATURE)
    assert "liqo-remote-certificate" in liqo.secrets


@pytest.mark.parametrize("readable", [True, False])
async def test_a_provider_need_not_show_its_secrets(readable: bool):
    liqo = Liqo(readable=readable)
    await tenantrequest.write_tenant(sides(liqo), OWN, SIGNATURE)
    assert liqo.writes == ["create"]
