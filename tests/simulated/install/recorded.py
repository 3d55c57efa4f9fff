"""Objects that a peering of two Liqo clusters left, as recorded, under the names used here."""

from pathlib import Path
from typing import Any

import yaml

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SECRETS, Kind
from liqod.kube.client import Client
from liqod.model import ids
from liqod.resources import SHADOW_PODS
from tests.simulated.reflecting import SHOP, THERE, Pair

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"
NAMES = {
    "ly": "rome",
    "lz": "milan",
    "demo": SHOP,
    "demo-ly": THERE,
    "kube-root-ca.crt.ly": ids.root_ca_name("rome"),
    "lz-40cb4b342f45": "milan-rome",
}
SERVER_FIELDS = ("creationTimestamp", "generation", "resourceVersion", "uid", "ownerReferences")
WEB = ("web-579b67d9cd-jb9mt", "web-579b67d9cd-zphm6")
"""The pods that ran at the provider."""

Json = dict[str, Any]


def recorded(path: str) -> dict[str, Json]:
    """The objects of one file by name, as they would be here."""
    items = yaml.safe_load((OBJECTS / f"{path}.yaml").read_text())["items"]
    return {each["metadata"]["name"]: each for each in map(renamed, items)}


def renamed(value: Any) -> Any:
    """The value with the two clusters' ids and namespaces replaced by rome's and milan's."""
    if isinstance(value, dict):
        return {key: renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return NAMES.get(value, value) if isinstance(value, str) else value


async def bring(client: Client, kind: Kind, body: Json, **changes: Any) -> Json:
    """Make a recorded object anew; the object as it then is."""
    meta = {key: each for key, each in body["metadata"].items() if key not in SERVER_FIELDS}
    meta |= changes
    fresh = {**body, "metadata": meta}
    status = fresh.pop("status", None)
    made = await client.create_full(kind, fresh, meta["namespace"])
    if status is not None:
        patch = {"status": status}
        await client.patch(kind, meta["name"], patch, meta["namespace"], subresource="status")
    return made


async def offloaded(both: Pair, *, creator: bool = True) -> dict[str, Json]:
    """The two pods of rome and all that Liqo made of them at milan; rome's pods by name.

    Args:
        both: the clusters.
        creator: whether milan ran Liqo too, whose webhook marks ShadowPods with their creator.
    """
    pods = recorded("consumer/ns-demo-pods")
    there = recorded("provider/cr-shadowpods.offloading.liqo.io")
    mine = {}
    for name in WEB:
        pods[name]["spec"].pop("serviceAccount")
        pods[name]["spec"].pop("serviceAccountName")
        mine[name] = await bring(both.here, PODS, pods[name])
        if not creator:
            del there[name]["metadata"]["labels"]["liqo.io/creator-user"]
        there[name].pop("status")
        await bring(both.there, SHADOW_PODS, there[name])
    for name, secret in recorded("provider/ns-demo-ly-secrets").items():
        notes = dict(secret["metadata"].get("annotations") or {})
        if name.endswith("-token"):
            pod = name.removesuffix("-token")
            notes["offloading.liqo.io/service-account-for-pod-uid"] = mine[pod]["metadata"]["uid"]
        await bring(both.there, SECRETS, secret, annotations=notes)
    config_maps = recorded("provider/ns-demo-ly-configmaps")
    for name in ("conf", NAMES["kube-root-ca.crt.ly"]):
        await bring(both.there, CONFIG_MAPS, config_maps[name])
    for kind, file in ((SECRETS, "secrets"), (CONFIG_MAPS, "configmaps")):
        for name, body in recorded(f"consumer/ns-demo-{file}").items():
            if await both.here.find(kind, name, SHOP) is None:
                await bring(both.here, kind, body)
    return mine
