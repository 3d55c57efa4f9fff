"""The daemon in the cluster: the address that it advertises to peers, and waiting until it runs.

Inside the cluster the API server has an address that means nothing, or another server, to peers; so
the advertised one is the administrator's, unless that works on one machine only.
"""

import ipaddress
import re
import tomllib
from base64 import b64decode
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS, SERVICES
from liqod.errors import ConfigError, LiqodError
from liqod.install.workload import CONFIG_FILE, NAME
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import check_url
from liqod.kube.selection import Selection
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

Json = dict[str, Any]

POLL: Final = 0.5
FOR_ANOTHER = "; the image is not for this node's machine: build it for its architecture, too"
_NO_NODE = "node affinity"
"""In the scheduler's words where nodes are others than a pod keeps to."""
_OTHER_MACHINE = re.compile(
    "no match for platform|no matching manifest for|for architecture|exec format error"
)
"""Words of container engines, and of the kernel, for an image of another architecture."""


def address_problem(server: str, cluster_ips: Iterable[str]) -> str:
    """Why peers cannot reach an API server at this URL; empty where nothing speaks against it.

    Args:
        server: the URL.
        cluster_ips: addresses of the Service ``kubernetes``.
    """
    host = (urlsplit(server).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return f"{server} is of this machine only"
    if host == "kubernetes" or host.endswith((".svc", ".svc.cluster.local", ".default")):
        return f"{server} is a name inside the cluster"
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return ""
    if address.is_loopback or address.is_unspecified or address.is_link_local:
        return f"{server} is of this machine only"
    if str(address) in {str(ipaddress.ip_address(each)) for each in cluster_ips if _is_ip(each)}:
        return f"{server} is an address inside the cluster"
    return ""


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False  # ``None`` of a headless Service
    return True


async def configured(client: Client, namespace: str) -> str:
    """The URL that the daemon's configuration in the cluster advertises; empty for none."""
    live = await client.find(SECRETS, NAME, namespace)
    text = b64decode((live or {}).get("data", {}).get(CONFIG_FILE, ""))
    if live is None:  # an older installation's
        old = await client.find(CONFIG_MAPS, NAME, namespace) or {}
        text = old.get("data", {}).get(CONFIG_FILE, "").encode()
    try:
        found = tomllib.loads(text.decode()).get("api_server", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return ""  # the daemon says what is wrong with it
    return str(found.get("advertise", ""))


async def advertised(client: Client, asked: str) -> str:
    """The URL that is advertised to peers: the one asked for, or else the administrator's.

    Raises:
        ConfigError: peers cannot reach the administrator's, or what is asked for is no URL.
    """
    if asked:
        check_url(asked, "--advertise")
        return asked.rstrip("/")
    service = await client.find(SERVICES, "kubernetes", "default")
    spec = (service or {}).get("spec", {})
    problem = address_problem(client.server, spec.get("clusterIPs") or [spec.get("clusterIP", "")])
    if problem:
        raise ConfigError(
            f"peers cannot reach this API server by the address in the kubeconfig: {problem}; say "
            "which one with --advertise https://…"
        )
    return client.server


async def wait_rolled_out(client: Client, namespace: str, progress: Progress) -> None:
    """Until every replica of the daemon is ready; meanwhile it is told why one is not."""
    step = "wait for the daemon in the cluster"
    progress(step)

    async def rolled_out() -> bool:
        live = await client.get(DEPLOYMENTS, NAME, namespace)
        if is_rolled_out(live):
            return True
        progress(Step(step, await why_not_rolled_out(client, live)))
        return False

    await poll_until(rolled_out, longest_pause=POLL)


async def hindrance(client: Client, namespace: str) -> str:
    """The reason why the daemon's replicas are not ready, in the words of the cluster; empty where
    they are, or none can be read."""
    try:
        live = await client.get(DEPLOYMENTS, NAME, namespace)
    except LiqodError:
        return ""
    return "" if is_rolled_out(live) else await why_not_rolled_out(client, live)


def is_rolled_out(deployment: Json) -> bool:
    """True if all replicas are of the newest template and available."""
    status = deployment.get("status", {})
    wanted = deployment["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(seen) and all(count == wanted for count in counts)


def _refusal(deployment: Json) -> str:
    """Why no pods can be made."""
    for condition in deployment.get("status", {}).get("conditions", []):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message", ""))
    return ""


async def why_not_rolled_out(client: Client, deployment: Json) -> str:
    """The reason why replicas are not ready, in the words of the cluster; empty for none given."""
    refusal = _refusal(deployment)
    if refusal:
        return refusal
    chosen = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in chosen.items())
    namespace = deployment["metadata"]["namespace"]
    try:
        pods = await client.list(PODS, Selection(namespace, labels=selector))
    except LiqodError:
        return ""
    return next(filter(None, (why_not_ready(pod) for pod in pods)), "")


def why_not_ready(pod: Json) -> str:
    """Why a pod is not ready, in the words of the cluster; empty where it gives no reason."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for each in status.get("containerStatuses", []):
        held = _why_held_up(each)
        if held:
            return f"{name}: {held}"
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            said = condition.get("message") or condition.get("reason", "")
            return f"{name}: {said}{_kept_to(pod) if _NO_NODE in said else ''}"
    if status.get("phase") == "Running":
        return (
            f"{name} runs, but is not ready: kubectl -n {pod['metadata']['namespace']} logs {name}"
        )
    return ""


def _kept_to(pod: Json) -> str:
    """The architectures that a pod keeps to, as the end of a sentence; empty for all."""
    affinity = pod.get("spec", {}).get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", []):
        for each in term.get("matchExpressions", []):
            if each.get("key") == labels.ARCH:
                return f"; the image is for {' and '.join(each.get('values', []))} ({labels.ARCH})"
    return ""


def _why_held_up(container: Json) -> str:
    """Why a container does not run, by its status; empty where it does, or is being made."""
    state = container.get("state", {})
    last = container.get("lastState", {}).get("terminated", {}).get("message", "").strip()
    for key in ("waiting", "terminated"):
        found = state.get(key)
        if found and found.get("reason") not in (None, "ContainerCreating"):
            words = [found["reason"], found.get("message", ""), last.rpartition("\n")[2]]
            said = ": ".join(filter(None, words))
            return f"{said}{FOR_ANOTHER}" if _OTHER_MACHINE.search(said) else said
    return ""
