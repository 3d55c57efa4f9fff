"""The chart's Job that leaves all peers before ``helm uninstall`` takes the daemon away.

Hooks are no part of a release: Helm makes them when their time comes, and deletes the account with
its rights afterwards. The Job stays for a while, for whoever reads its log.
"""

from typing import Any, Final

from liqod.install import rights
from liqod.install.departurerights import ACCOUNT
from liqod.install.manifests import MANAGED, Manifest, service_account

HOOK: Final = "helm.sh/hook"
"""Annotation of what is no part of the release: when it is made."""
DEADLINE: Final = 120
"""Seconds for the Job, the time to get its image among them; the program ends well before."""
KEPT_FOR: Final = 3600
"""Seconds for which its log can be read."""
TRIES: Final = 2
"""More pods, where one is lost to its node."""


def departure(namespace: str, pod: Manifest) -> list[Manifest]:
    """The objects, in the order in which Helm makes them.

    Args:
        namespace: liqod's own.
        pod: the spec of the daemon's pod, without networks: where it may run, and how it is held.
    """
    before = [service_account(namespace, ACCOUNT), *rights.departure(namespace)]
    made = [_hook(each, -10, "before-hook-creation,hook-succeeded,hook-failed") for each in before]
    return [*made, _hook(_job(namespace, pod), 0, "before-hook-creation")]


def _job(namespace: str, pod: Manifest) -> Manifest:
    [daemon] = pod["containers"]
    container = {
        "name": "leave",
        "image": daemon["image"],
        "command": ["python", "-m", "liqod.install.departure"],
        "env": [each for each in daemon["env"] if each["name"] == "LIQOD_NAMESPACE"],
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}},
        "securityContext": daemon["securityContext"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    taken = ("enableServiceLinks", "securityContext", "affinity")
    spec = {
        **{name: pod[name] for name in taken},
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
        "spec": {
            "activeDeadlineSeconds": DEADLINE,
            "backoffLimit": TRIES,
            "ttlSecondsAfterFinished": KEPT_FOR,
            "template": {"metadata": {"labels": dict(MANAGED)}, "spec": spec},
        },
    }


def _hook(manifest: Manifest, weight: int, deleted: str) -> Manifest:
    metadata: dict[str, Any] = dict(manifest["metadata"])
    metadata["labels"] = {**MANAGED, **metadata.get("labels", {})}
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        HOOK: "pre-delete",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": deleted,
        **({"helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed"} if weight == 0 else {}),
    }
    return {**manifest, "metadata": metadata}
