"""Where this cluster's daemon runs and how it was started, as its Lease notes it, and what follows
for a person: how to start it, and how to ask it. Pure.
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
    """What the Lease notes; nothing is known where it does not, or cannot be read."""
    try:
        return msgspec.json.decode(annotations.get(labels.RUNS_AT, "{}"), type=Whereabouts)
    except msgspec.DecodeError:
        return Whereabouts()


def start(found: Whereabouts, namespace: str) -> str:
    """What to do to have it run again.

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
    """What to do to have the daemon itself answer a command; empty where nothing is known."""
    if found.pod:
        return (
            f"it runs in the cluster: `kubectl -n {namespace} exec -it deployment/{DEPLOYMENT} -- "
            f"liqod {verb}`"
        )
    return f"it runs on {found.host}: `liqod {verb}` there" if found.host else ""
