"""A Job that asks the API server of its own cluster for its pod, wherever it runs."""

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
