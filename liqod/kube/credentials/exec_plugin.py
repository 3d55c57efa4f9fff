"""Runs a credential plugin in a process of its own: ``python -m
liqod.kube.credentials.exec_plugin``.

The only importer of the official ``kubernetes`` package, which implements the plugin protocol and
costs 35 MB that the daemon need not carry. Reads ``{"document": kubeconfig as JSON text,
"directory": …}`` from standard input and writes a
:class:`liqod.kube.credentials.source.IssuedCredentials` as JSON. Ends with 1 when the plugin fails,
with the reason on standard error.
"""

import base64
import contextlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MISSING = (
    "credential plugins need the Python package kubernetes, which liqod's image does not have: "
    "`{python} -m pip install kubernetes`, or use a kubeconfig with a token or a certificate"
)


def run_plugin(document: dict[str, Any], directory: str) -> dict[str, Any]:
    """Run the plugin of the document's current context; the fields of ``IssuedCredentials``.

    Raises the errors of the official package.
    """
    from kubernetes.config import exec_provider, kube_config

    package: Any = kube_config  # only partly typed
    user = document["users"][0]["user"]
    if user.get("exec"):
        provider: Any = exec_provider
        entry = package.ConfigNode("exec", user["exec"])
        cluster = package.ConfigNode("cluster", _cluster_info(document["clusters"][0]["cluster"]))
        status = provider.ExecProvider(entry, directory or None, cluster).run()
        return {
            "token": status.get("token"),
            "client_cert": status.get("clientCertificateData"),
            "client_key": status.get("clientKeyData"),
            "expires": _unix(status.get("expirationTimestamp")),
        }
    loader = package.KubeConfigLoader(config_dict=document, config_base_path=directory or None)
    loader._load_authentication()
    token = str(getattr(loader, "token", "") or "")
    return {"token": token.removeprefix("Bearer ").strip() or None}


def _cluster_info(cluster: dict[str, Any]) -> dict[str, Any]:
    """The cluster in the form of the plugin protocol: CA as data."""
    info = dict(cluster)
    file = info.pop("certificate-authority", None)
    if file and "certificate-authority-data" not in info:
        info["certificate-authority-data"] = base64.b64encode(Path(file).read_bytes()).decode()
    return info


def _unix(text: str | None) -> float | None:
    """RFC 3339 to Unix time; None for none."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def main() -> int:
    """Handle one request from standard input; returns the exit code."""
    question = json.load(sys.stdin)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a chatty package must not garble the answer
            answer = run_plugin(json.loads(question["document"]), question["directory"])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0] == "kubernetes"
        print(MISSING.format(python=sys.executable) if missing else error, file=sys.stderr)
        return 1
    except Exception as error:  # the wall of this process: report any error and end
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    if not any(answer.get(key) for key in ("token", "client_cert")):
        print("it gave neither a token nor a client certificate", file=sys.stderr)
        return 1
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
