"""Place and start method of this cluster's daemon, as its Lease notes them. Pure.

A person learns from it how to start the daemon, and how to ask it.
"""

import msgspec

from liqod.apimachinery import labels

DEPLOYMENT = "liqod"
"""Name of the daemon's Deployment, where it was installed into the cluster."""


class Whereabouts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a daemon runs.

    Attributes:
        host: name of the machine, or of the pod.
        unit: systemd's unit, if it is one of systemd's.
        pod: it is a pod of the cluster that it works for.
    """

    host: str = ""
    unit: str = ""
    pod: bool = False


def noted(found: Whereabouts) -> dict[str, str]:
    """The annotation of the Lease."""
    return {labels.RUNS_AT: msgspec.json.encode(found).decode()}


def read(annotations: dict[str, str]) -> Whereabouts:
    """The whereabouts in a Lease's annotations; empty where they are missing or unreadable."""
    try:
        return msgspec.json.decode(annotations.get(labels.RUNS_AT, "{}"), type=Whereabouts)
    except msgspec.DecodeError:
        return Whereabouts()


def start(found: Whereabouts, namespace: str) -> str:
    """The step that starts the daemon again.

    Args:
        found: how it ran when it led last.
        namespace: liqod's own.
    """
    if found.pod:
        return f"see `kubectl -n {namespace} rollout status deployment {DEPLOYMENT}`"
    if found.unit:
        return f"`systemctl start {found.unit}` on {found.host}"
    return f"start `liqod run` on {found.host}" if found.host else "start `liqod run`"


def ask(found: Whereabouts, namespace: str, verb: str) -> str:
    """The step by which the daemon itself answers a command; empty where its place is not known."""
    if found.pod:
        return (
            f"it runs in the cluster: `kubectl -n {namespace} exec -it deployment/{DEPLOYMENT} -- "
            f"liqod {verb}`"
        )
    return f"it runs on {found.host}: `liqod {verb}` there" if found.host else ""
