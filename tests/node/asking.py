"""Pods that ask: a Job its cluster's API server, wherever it runs; one the sockets of its node."""

from __future__ import annotations

from typing import Any

from liqod.apimachinery import labels
from tests.testbed import ownimages

OWN_POD = """
import json, os, ssl, stat, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
read = {name: open(f"{folder}/{name}").read() for name in ("token", "ca.crt", "namespace")}
modes = {name: f"{stat.S_IMODE(os.stat(f'{folder}/{name}').st_mode):o}" for name in read}
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")
def ask(what):
    url = f"https://{host}:{port}/api/v1/namespaces/{read['namespace']}/{what}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {read['token']}"})
    return json.load(urllib.request.urlopen(request, context=tls, timeout=10))
pod = ask("pods/" + os.environ["HOSTNAME"])["metadata"]["uid"]
try:
    secrets = ask("secrets")
except urllib.error.HTTPError as error:
    secrets = error.code
told = {"pod": pod, "namespace": read["namespace"], "secrets": secrets, "modes": modes}
print(json.dumps({**told, "host": host}))
"""
"""Asks the API server that a pod is given for the pod itself, and for what it may not read."""
KNOCK = """
import socket
for name in ("machine", "calls", "calls-6446"):
    try:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(10)
        made.connect(f"/run/liqod-node/{name}.sock")
        print(made.recv(4096))
    except OSError as error:
        print(error)
"""
"""Asks at each socket of `liqod node`."""


def asking_job() -> dict[str, Any]:
    """A Job whose container asks the API server of its ServiceAccount for its own pod."""
    container = {
        "name": "asks",
        "image": ownimages.NAME,
        "imagePullPolicy": "Never",
        "command": [ownimages.PYTHON, "-c", OWN_POD],
    }
    spec = {"serviceAccountName": "robot", "restartPolicy": "Never", "containers": [container]}
    marks = {"labels": {"app": "asks"}, "annotations": {labels.API_SERVER_SUPPORT: "home"}}
    return {
        "metadata": {"name": "asks"},
        "spec": {"backoffLimit": 0, "template": {"metadata": marks, "spec": spec}},
    }


def knocking_pod(name: str, group: int) -> dict[str, Any]:
    """A pod of no daemon that has the socket's folder, and says what it hears there.

    Args:
        group: of its user, which is nobody's on the node.
    """
    folder = {"name": "sockets", "hostPath": {"path": "/run/liqod-node"}}
    container = {
        "name": "knocks",
        "image": ownimages.NAME,
        "imagePullPolicy": "Never",
        "command": [ownimages.PYTHON, "-c", KNOCK],
        "volumeMounts": [{"name": "sockets", "mountPath": "/run/liqod-node"}],
        "securityContext": {"runAsUser": 1000, "runAsGroup": group},
    }
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [folder]}
    return {"metadata": {"name": name}, "spec": {**spec, "nodeName": "rome"}}
