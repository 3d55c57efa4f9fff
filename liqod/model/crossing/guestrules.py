"""Restrictions that a provider declares for guests' pods. Pure.

A provider writes its rules as JSON into an annotation of the slices that it grants, and they come
back to the consumer with the slice's status; pods that break them stay in the consumer's cluster. A
provider that declares nothing (Liqo's) may take anything. Only restrictions without exception are
rules: Pod Security's level, the kinds of volumes, the ServiceAccounts and RuntimeClasses of its own
that it lends, and the sizes of its largest machines.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.peering import capacity, quota

Json = Mapping[str, Any]

LONGEST: Final = 4096
"""Bytes of an annotation that is believed."""
CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""Capabilities that the level ``baseline`` lets a container add."""


class Rules(msgspec.Struct, frozen=True, rename="camel"):
    """The restrictions of one provider for guests' pods.

    Attributes:
        pod_security: the level that its namespaces for guests enforce.
        volumes: patterns of the kinds of volumes that guests may have.
        service_accounts, runtime_classes: patterns of those at the provider that guests may use.
        machines: the sizes of its largest machines; none where it does not tell them.
        waiting_gives_way: whether a pod that no node there has room for leaves the grant to smaller
            ones.
        takes: words of the consents that it gives to kinds which a provider has to agree to; each
            is a key of its own that is true.
    """

    pod_security: str = "privileged"
    volumes: tuple[str, ...] = ("*",)
    service_accounts: tuple[str, ...] = ("*",)
    runtime_classes: tuple[str, ...] = ("*",)
    machines: tuple[dict[str, int | str], ...] = ()
    waiting_gives_way: bool = False
    takes: frozenset[str] = frozenset()


_OWN_KEYS: Final = frozenset(each.encode_name for each in msgspec.structs.fields(Rules))


def render(rules: Rules) -> str:
    """The annotation; beyond Liqo's wire format it names only what is accepted."""
    told = msgspec.to_builtins(rules)
    del told["takes"]
    return msgspec.json.encode({**told, **dict.fromkeys(sorted(rules.takes), True)}).decode()


def parse(text: str | None) -> Rules | None:
    """The rules in an annotation; None where it is missing or cannot be read."""
    if not text or len(text) > LONGEST:
        return None
    try:
        found = msgspec.json.decode(text, type=Rules)
        keys: dict[str, object] = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
    takes = frozenset(key for key, value in keys.items() if value is True) - _OWN_KEYS
    return msgspec.structs.replace(found, takes=takes)


def problems(spec: Json, providers: Mapping[str, Rules | None]) -> dict[str, str]:
    """The reasons why providers would not accept the pod, by their ids, by their rules.

    Args:
        spec: of the pod, with the ServiceAccount and the RuntimeClass that it has at the provider.
        providers: the rules of each, None for one that publishes none.
    """
    found = {peer: _problem(spec, rules) for peer, rules in providers.items() if rules is not None}
    return {peer: why for peer, why in found.items() if why}


def _problem(spec: Json, rules: Rules) -> str:
    return _forbidden(spec, rules) or _too_large(spec, rules)


def _too_large(spec: Json, rules: Rules) -> str:
    """The reason why the pod has room on none of the provider's machines."""
    if not rules.machines:
        return ""
    try:
        machines = [quantities.parse_all(each) for each in rules.machines[: capacity.MOST_MACHINES]]
        return capacity.too_large(quota.pod_cost(spec), machines)
    except ConfigError:
        return ""  # nonsense of the provider's, or a pod that the API server refuses


def _forbidden(spec: Json, rules: Rules) -> str:
    for volume in spec.get("volumes") or ():
        for kind in volume:
            if kind != "name" and not _is_one_of(kind, rules.volumes):
                return f"volume {volume.get('name')} is of type {kind}"
    account, runtime = spec.get("serviceAccountName"), spec.get("runtimeClassName")
    if account and not _is_one_of(account, rules.service_accounts):
        return f"it asks for the ServiceAccount {account} over there"
    if runtime and not _is_one_of(runtime, rules.runtime_classes):
        return f"it asks for the RuntimeClass {runtime} over there"
    if rules.pod_security == "privileged":
        return ""
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            return f"volume {volume.get('name')} is of type hostPath"
    if _unconfined(spec.get("securityContext")):
        return "it runs without seccomp"
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            why = _excess(container, host=bool(spec.get("hostNetwork")))
            if why:
                return f"container {container.get('name')} {why}"
    return ""


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _excess(container: Json, *, host: bool) -> str:
    """The first violation of the level ``baseline`` by a container, as a clause; empty for none."""
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        return "is privileged"
    added = set((context.get("capabilities") or {}).get("add") or ()) - CAPABILITIES
    if added:
        return f"adds the capabilities {', '.join(sorted(added))}"
    if context.get("procMount") not in (None, "", "Default"):
        return f"has the procMount {context['procMount']}"
    if _unconfined(context):
        return "runs without seccomp"
    # On the host's network every port is one of the host's; it does not cross, and neither do they.
    if not host and any(port.get("hostPort") for port in container.get("ports") or ()):
        return "has a port of the host"
    return ""


def _unconfined(context: Json | None) -> bool:
    return ((context or {}).get("seccompProfile") or {}).get("type") == "Unconfined"
