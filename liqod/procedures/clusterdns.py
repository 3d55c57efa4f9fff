"""Reads the cluster's DNS server, which is CoreDNS with a Corefile in ``kube-system`` as a rule."""

from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS
from liqod.errors import Forbidden, LiqodError, NotFound
from liqod.kube.client import Client
from liqod.kube.reviews import AuthenticatedUser, may
from liqod.kube.selection import Selection
from liqod.model.clusterset import corefile
from liqod.model.view.servicefacts import NameServer
from liqod.resources.multicluster import GROUP, SERVICE_IMPORTS, VERSIONS

SYSTEM: Final = "kube-system"
DNS: Final = Selection(SYSTEM, labels="k8s-app=kube-dns")
"""The Deployment of the cluster's DNS server, and its Service, whichever program it is."""
COREFILE: Final = "Corefile"
CACHE: Final = "node-local-dns"
"""The ConfigMap and the DaemonSet of Kubernetes' NodeLocal DNSCache."""

Json = dict[str, Any]


class CoreDns(msgspec.Struct, frozen=True):
    """The objects of the cluster's CoreDNS.

    Attributes:
        configuration: the ConfigMap with its Corefile.
        deployment: its Deployment; None where it is another kind.
        imported: the texts beside the Corefile in what its pods mount, which that may import.
    """

    configuration: Json
    deployment: Json | None = None
    imported: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the ConfigMap."""
        return str(self.configuration["metadata"]["name"])

    @property
    def place(self) -> str:
        """The ConfigMap as ``namespace/name``."""
        return f"{SYSTEM}/{self.name}"

    @property
    def corefile(self) -> str:
        """The text of the Corefile."""
        return str(self.configuration["data"][COREFILE])

    @property
    def account(self) -> str:
        """The ServiceAccount of its pods; empty: unknown."""
        return str(self._pod.get("serviceAccountName") or "")

    @property
    def version(self) -> tuple[int, ...]:
        """The version by the tag of its image; empty: unknown."""
        return corefile.version_of(self.image)

    @property
    def image(self) -> str:
        """Its image; empty: unknown."""
        images = (str(each.get("image")) for each in self._pod.get("containers") or ())
        return next((each for each in images if "coredns" in each), "")

    @property
    def _pod(self) -> Json:
        found = self.deployment or {}
        return dict(found.get("spec", {}).get("template", {}).get("spec", {}))


async def find(client: Client) -> CoreDns | None:
    """The cluster's CoreDNS; None where there is no Corefile.

    Raises:
        Forbidden: it may not be looked for.
    """
    found = await client.list(CONFIG_MAPS, Selection(SYSTEM))
    deployments = await client.list(DEPLOYMENTS, DNS)
    deployment: Json | None = deployments[0] if deployments else None
    pod: Json = deployment["spec"]["template"]["spec"] if deployment is not None else {}
    used = {(volume.get("configMap") or {}).get("name") for volume in pod.get("volumes") or ()}
    texts: dict[str, Json] = {
        each["metadata"]["name"]: each
        for each in found
        if deployment is None or each["metadata"]["name"] in used
    }
    place = next((name for name, one in sorted(texts.items()) if COREFILE in _data(one)), "")
    if not place:
        return None
    # A Corefile may import the files of another ConfigMap that the pods have.
    others = [text for name, one in texts.items() if name != place for text in _data(one).values()]
    return CoreDns(texts[place], deployment, tuple(others) if deployment is not None else ())


def _data(found: Json) -> dict[str, str]:
    return found.get("data") or {}


async def deaf_cache(client: Client) -> str:
    """The configuration of a DNS cache on the nodes that has no server for the names of the set.

    It asks the cluster's DNS server about the zones that it has a server for, and of all others
    that of the node.
    """
    found = await client.find(CONFIG_MAPS, CACHE, SYSTEM)
    if found is None or await client.find(DAEMON_SETS, CACHE, SYSTEM) is None:
        return ""
    text = _data(found).get(COREFILE, "")
    return "" if corefile.read(text).directive else f"{SYSTEM}/{CACHE}"


async def name_server(client: Client) -> NameServer:
    """The cluster's DNS server; what cannot be read of it is left empty."""
    try:
        deaf = await deaf_cache(client)
        found = await find(client)
    except (Forbidden, NotFound):
        return NameServer()
    if found is None:
        return NameServer(deaf_cache=deaf)
    names = corefile.read("\n".join((found.corefile, *found.imported)))
    served = names.directive == corefile.OPTION
    lists = await lists_imports(client, found.account) if served else None
    return NameServer(found.place, names, found.version, found.account, lists, deaf_cache=deaf)


async def lists_imports(client: Client, account: str) -> bool | None:
    """True if the DNS server may list and watch ServiceImports; None: unknown."""
    if not account:
        return None
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated")
    user = AuthenticatedUser(f"system:serviceaccount:{SYSTEM}:{account}", groups)
    asked = {"group": GROUP, "resource": SERVICE_IMPORTS[VERSIONS[0]].plural}
    try:
        return all([await may(client, user, verb=verb, **asked) for verb in ("list", "watch")])
    except LiqodError:
        return None
