"""The objects that ``status`` reads from the API server, where some of them are nonsense."""

from types import SimpleNamespace
from typing import Any

from liqod.apimachinery.meta import ObjectMeta
from liqod.cli.snapshotreader import KindLists
from liqod.identity import certificates
from liqod.inspect.objectcaches import LISTED, lives
from liqod.resources import Identity
from liqod.resources.authentication import AuthParams, IdentitySpec


def identity(name: str, certificate: bytes) -> Identity:
    spec = IdentitySpec(cluster_id="milan", auth_params=AuthParams(signed_crt=certificate))
    return Identity(metadata=ObjectMeta(name=name), spec=spec)


async def test_a_certificate_that_is_none_does_not_hide_the_others():
    good = certificates.make_ca("milan", life=3600.0).certificate
    there = [identity("a", b"nonsense"), identity("b", good), identity("c", b"")]

    async def list_all(*_: Any, **__: Any) -> list[Identity]:
        return there

    client: Any = SimpleNamespace(list=list_all)
    found = lives(await KindLists(client).kept(LISTED["expiries"], "liqo"))
    assert list(found) == [("milan", "b")]
    assert 3500 < found["milan", "b"] <= 3600
