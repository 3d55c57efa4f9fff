"""The plan of ``liqod test network``: its pods, its Services, the tries of each client. Pure.

A server runs at each place and answers with its name and with the client's address as it sees it. A
client makes all tries of its place, writes a line for each into its termination message and ends:
so its result comes back with the pod's status, and neither logs nor a command in a running pod are
needed. Clients at a peer do not use the translation of addresses: they look the servers' names up,
as applications do.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.addresses import parse

Json = dict[str, Any]
Verdict = Literal["ok", "failed", "skipped"]

NAMESPACE: Final = "liqod-test-network"
OWN: Final = {"liqod.io/test": "network"}
"""Label of the namespace: one of that name without it is not the test's."""
IMAGE: Final = "docker.io/library/busybox:1.37"
PORT: Final = 8080
PATIENCE: Final = 20
"""Seconds for which a client repeats a try: new objects arrive a little later."""


class ProbeLocation(msgspec.Struct, frozen=True):
    """A place where pods of the test run.

    Attributes:
        cluster: its id.
        node: a node of this cluster, or the virtual node of the peer.
        address: of the node, where it is one of this cluster.
        number: of the cluster: 0 is this one.
    """

    cluster: str
    node: str
    address: str = ""
    number: int = 0


class Try(msgspec.Struct, frozen=True):
    """One try of a client.

    Attributes:
        source: its source, for people.
        target: its target, for people.
        verb: ``address``, ``each`` (all addresses of a name) or ``connect``.
        to: a name, or an address and a port with a blank between.
    """

    source: str
    target: str
    verb: Literal["address", "each", "connect"]
    to: str


class NetworkTestRow(msgspec.Struct, frozen=True):
    """The result of a try.

    Attributes:
        source, target: as of :class:`Try`.
        verdict: ``skipped`` where it was not tried.
        detail: the server that answered and the client's address as it saw it, or the reason.
    """

    source: str
    target: str
    verdict: Verdict
    detail: str


# --- Objects --------------------------------------------------------------------------------------


def namespace() -> Json:
    """The namespace, which accepts pods on the nodes' own network."""
    allowed = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"metadata": {"name": NAMESPACE, "labels": {**OWN, **allowed}}}


def service(number: int, kind: Literal["at", "pods", "port"]) -> Json:
    """A Service of a cluster's servers: with an address, without one, or at a port of the nodes."""
    spec: Json = {"selector": {"app": f"server-{number}"}, "ports": [{"port": PORT}]}
    # Of every family that the cluster has: each has its own path.
    spec["ipFamilyPolicy"] = "PreferDualStack"
    metadata: Json = {"name": f"{kind}-{number}"}
    if kind == "pods":
        spec["clusterIP"] = "None"
    if kind == "port":
        spec["type"] = "NodePort"
        metadata["annotations"] = {labels.FORCE_REMOTE_NODE_PORT: "true"}
    return {"metadata": metadata, "spec": spec}


def server(place: ProbeLocation, image: str) -> Json:
    """The pod of a server."""
    answer = f'printf "Content-Type: text/plain\\r\\n\\r\\n{place.cluster} %s" "$REMOTE_ADDR"'
    script = (
        "busybox mkdir -p /work/cgi-bin\n"
        f"busybox cat > /work/cgi-bin/who <<'END'\n#!/bin/sh\n{answer}\nEND\n"
        "busybox chmod 755 /work/cgi-bin/who\n"
        f"exec busybox httpd -f -p {PORT} -h /work\n"
    )
    made = _pod(f"server-{place.number}", place, image, script)
    made["metadata"]["labels"] = {"app": f"server-{place.number}"}
    ready = {"tcpSocket": {"port": PORT}, "periodSeconds": 1}
    made["spec"]["containers"][0]["readinessProbe"] = ready
    return made


def client(
    name: str, place: ProbeLocation, image: str, tries: Sequence[Try], *, host: bool = False
) -> Json:
    """The pod of a client; with ``host`` on its node's own network."""
    lines = [f"port={PORT} patience={PATIENCE}", _SCRIPT]
    lines += [f"try {number} {each.verb} {each.to} &" for number, each in enumerate(tries)]
    lines += ["wait", "busybox cat /work/out > /dev/termination-log", ""]
    made = _pod(name, place, image, "\n".join(lines))
    made["spec"]["restartPolicy"] = "Never"
    if host:
        made["spec"] |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return made


_SCRIPT: Final = r"""
ask() { printf 'GET /cgi-bin/who HTTP/1.0\r\n\r\n' | busybox timeout 5 busybox nc -w 4 "$1" "$2"; }
late() { if [ $1 = 143 ] || [ $1 = 124 ]; then echo "no answer in 5 s"; fi; }
fetch() {
  got=$(ask "$1" "$2" 2>&1)
  code=$?
  late $code
  echo "$got" | busybox tail -n 1
  return $code
}
found() {
  domain=$(busybox awk '/^search/ { print $2; exit }' /etc/resolv.conf)
  busybox nslookup "$1.$domain" 2>&1 | busybox awk '/^Name/ { seen = 1 } seen && /^Address/ {
    for (i = 2; i <= NF; i++) if ($i ~ /^[0-9a-f.:]+[0-9a-f]$/) { print $i; break } }'
}
unknown() { echo "no address is found for the name $1 (cluster DNS)"; }
address() { fetch "$1" "$2"; }
each() {
  all=$(found "$1")
  if [ -z "$all" ]; then unknown "$1"; return 1; fi
  for one in $all; do
    answer=$(fetch "$one" $port) || { echo "$one: $answer"; return 1; }
    echo "$answer at $one"
  done
}
connect() {
  busybox timeout 5 busybox nc -w 4 "$1" "$2" < /dev/null 2>&1 && echo connected && return
  late $?
  return 1
}
now() { read -r up rest < /proc/uptime; echo "${up%%.*}"; }
try() {
  number=$1; shift
  end=$(($(now) + patience))
  while :; do
    if said=$("$@"); then word=ok; break; fi
    word=failed
    if [ "$(now)" -ge "$end" ]; then break; fi
    busybox sleep 1
  done
  said=$(echo $said | busybox head -c 150)
  echo "$number $word $said" >> /work/out
}
"""
"""The functions of a client's script; POSIX shell and busybox, nothing else."""


def _pod(name: str, place: ProbeLocation, image: str, script: str) -> Json:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
        "env": [_field("HOST_IP", "status.hostIP")],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65534,
        },
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "work", "emptyDir": {}}],
            "nodeSelector": {"kubernetes.io/hostname": place.node},
            "tolerations": [{"key": labels.VIRTUAL_NODE_TAINT, "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
        },
    }


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


# --- Tries ----------------------------------------------------------------------------------------


def tries_here(
    place: ProbeLocation,
    targets: Sequence[ProbeLocation],
    addresses: Mapping[str, Sequence[str]],
    service_addresses: Mapping[str, Sequence[str]],
    node_ports: Mapping[int, int],
    outside: str,
    *,
    host: bool = False,
) -> list[Try]:
    """The tries of a client in this cluster.

    Args:
        place: its place.
        targets: the places of servers.
        addresses: of the servers, by the name of their pod.
        service_addresses: by the name of the Service.
        node_ports: by the number of the cluster.
        outside: ``address:port`` outside of the clusters; empty for none.
        host: whether it is on the node's own network.
    """
    source = f"{'node' if host else 'pod'} {place.cluster}/{place.node}"
    made: list[Try] = []
    for each in targets:
        made += [
            Try(source, f"pod {each.cluster} {address}", "address", f"{address} {PORT}")
            for address in addresses.get(f"server-{each.number}", ())
        ]
        made += [
            Try(source, f"service of {each.cluster}'s pods {one}", "address", f"{one} {PORT}")
            for one in service_addresses.get(f"at-{each.number}", ())
        ]
        port = node_ports.get(each.number)
        if port and not host and place.address:
            to = f"{place.address} {port}"
            made.append(Try(source, f"node port of {each.cluster}'s pods", "address", to))
    if outside and not host:
        made.append(Try(source, f"outside {outside}", "connect", _apart(outside)))
    return made


def tries_there(
    place: ProbeLocation,
    targets: Sequence[ProbeLocation],
    node_ports: Mapping[int, int],
    outside: str,
) -> list[Try]:
    """The tries of a client at a peer; arguments as of :func:`tries_here`."""
    source = f"pod {place.cluster}"
    made: list[Try] = []
    for each in targets:
        made.append(Try(source, f"pods {each.cluster}", "each", f"pods-{each.number}"))
        made.append(Try(source, f"service of {each.cluster}'s pods", "each", f"at-{each.number}"))
        port = node_ports.get(each.number)
        if port:
            to = f'"$HOST_IP" {port}'
            made.append(Try(source, f"node port of {each.cluster}'s pods", "address", to))
    if outside:
        made.append(Try(source, f"outside {outside}", "connect", _apart(outside)))
    return made


def _apart(place: str) -> str:
    """``host port`` of ``host:port``."""
    host, _, port = place.rpartition(":")
    return f"{host.strip('[]')} {port}"


# --- Results --------------------------------------------------------------------------------------


def rows(tries: Sequence[Try], message: str, otherwise: str) -> list[NetworkTestRow]:
    """The results of a client's tries.

    Args:
        tries: its tries.
        message: its termination message.
        otherwise: the reason for a missing line of a try.
    """
    said: dict[int, tuple[str, str]] = {}
    for line in message.splitlines():
        number, _, rest = line.partition(" ")
        word, _, detail = rest.partition(" ")
        if number.isdecimal() and word in ("ok", "failed"):
            said[int(number)] = (word, detail.strip())
    made: list[NetworkTestRow] = []
    for index, each in enumerate(tries):
        word, detail = said.get(index, ("failed", otherwise))
        verdict: Verdict = "ok" if word == "ok" else "failed"
        shown = _answer(detail) if verdict == "ok" else detail or "no answer"
        made.append(NetworkTestRow(each.source, each.target, verdict, shown))
    return made


def _answer(detail: str) -> str:
    """``CLUSTER ADDRESS`` of a server's answer, for people."""
    cluster, _, rest = detail.partition(" ")
    seen, _, more = rest.partition(" ")
    address = seen.strip("[]").removeprefix("::ffff:").partition("]")[0]
    if not cluster or parse(address) is None:
        return detail
    return f"{cluster} answered, which sees {address}{f' ({more})' if more else ''}"


def skipped(sources: Iterable[str], target: str, why: str) -> list[NetworkTestRow]:
    """Rows of tries that were skipped."""
    return [NetworkTestRow(source, target, "skipped", why) for source in sources]


def passed(found: Iterable[NetworkTestRow]) -> bool:
    """True if there was a try, and none failed."""
    verdicts = [each.verdict for each in found]
    return "ok" in verdicts and "failed" not in verdicts
