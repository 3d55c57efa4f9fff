"""The admission policy that holds pods in the daemon's namespace to Pod Security's ``restricted``.

Where networks are joined, the daemon's pod mounts the folder of ``liqod node``'s socket. No level
but ``privileged`` lets a folder of the node in, so that is the level of the namespace, and this
policy keeps from its pods all else that ``restricted`` forbids: of the node they may have that one
folder. A change that leaves the spec of a pod as it is is not looked at. Pure.
"""

from typing import Final

from liqod.provider.policies.cel import WRITES, Manifest, policy, refusal, rule

POLICY: Final = "liqod-restricted-pods"
VOLUMES: Final = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
)
"""Types that the level ``restricted`` admits."""
ADDED: Final = ("NET_BIND_SERVICE",)
"""Capabilities that it lets a container add."""
SELINUX: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
"""Types of SELinux that it admits."""
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the annotations that were AppArmor's profiles before the fields."""
_SECCOMP: Final = ("RuntimeDefault", "Localhost")
_SHARED: Final = "variables.spec.?securityContext"
"""CEL: the security context of the pod."""
_OWN: Final = "c.?securityContext"
"""CEL: that of the container ``c``."""
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_HANDLERS: Final = ("httpGet", "tcpSocket")

_VARIABLES: Final = {
    "spec": "object.spec",
    "containers": "variables.spec.containers + variables.spec.?initContainers.orValue([])"
    " + variables.spec.?ephemeralContainers.orValue([])",
}


def policies(namespace: str, folder: str) -> list[Manifest]:
    """The policy and its binding.

    Args:
        namespace: the daemon's.
        folder: path of the one folder of a node that its pods may mount.
    """
    return policy(
        POLICY,
        rules=[
            rule("", ["pods"], WRITES),
            rule("", ["pods/ephemeralcontainers", "pods/resize"]),
        ],
        namespaces={
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": [namespace],
        },
        held="request.operation == 'CREATE' || object.spec != oldObject.spec",
        variables=_VARIABLES,
        validations=[
            refusal(expression, f"in the namespace of liqod a pod {message}")
            for expression, message in _rules(folder)
        ],
    )


def _rules(folder: str) -> list[tuple[str, str]]:
    """CEL that has to hold, each with the message where it does not."""
    sources = " || ".join(f"v.?{each}.hasValue()" for each in VOLUMES)
    users = [
        *(f"c.?{probe}" for probe in _PROBES),
        *(f"c.?lifecycle.?{hook}" for hook in _HOOKS),
    ]
    hosts = ", ".join(f"?{each}.?{handler}.?host" for each in users for handler in _HANDLERS)
    return [
        (
            "!variables.spec.?hostPID.orValue(false) && !variables.spec.?hostIPC.orValue(false)"
            f" && !{_SHARED}.?windowsOptions.?hostProcess.orValue(false)"
            f" && {_each(f'!{_OWN}.?windowsOptions.?hostProcess.orValue(false)')}",
            "has no namespace of its node",
        ),
        (
            "!variables.spec.?hostNetwork.orValue(false)",
            "is not in the network of its node",
        ),
        (
            f"variables.spec.?volumes.orValue([]).all(v, {sources}"
            f" || v.?hostPath.?path.orValue('') == '{folder}')",
            f"has no volume of that type, and of its node the folder {folder} alone",
        ),
        (
            _each(
                f"!{_OWN}.?privileged.orValue(false)"
                f" && !{_OWN}.?allowPrivilegeEscalation.orValue(true)"
                f" && {_OWN}.?procMount.orValue('Default') == 'Default'"
            ),
            "is not privileged, gains no privileges (allowPrivilegeEscalation: false), and has the"
            " default procMount",
        ),
        (
            _each(
                f"{_OWN}.?capabilities.?drop.orValue([]).exists(n, n == 'ALL')"
                f" && {_OWN}.?capabilities.?add.orValue([]).all(n, n in {list(ADDED)!r})"
            ),
            "drops all capabilities, and adds none",
        ),
        (
            _each(
                f"{_OWN}.?runAsNonRoot.orValue({_SHARED}.?runAsNonRoot.orValue(false))"
                f" && {_OWN}.?runAsUser.orValue(1) != 0"
            )
            + f" && {_SHARED}.?runAsUser.orValue(1) != 0",
            "is not root's (runAsNonRoot: true)",
        ),
        (
            _each(
                f"{_OWN}.?seccompProfile.?type.orValue("
                f"{_SHARED}.?seccompProfile.?type.orValue('')) in {list(_SECCOMP)!r}"
            )
            + f" && {_SHARED}.?seccompProfile.?type.orValue('') != 'Unconfined'",
            "has a profile of seccomp",
        ),
        (
            _each(f"{_OWN}.?appArmorProfile.?type.orValue('') != 'Unconfined'")
            + f" && {_SHARED}.?appArmorProfile.?type.orValue('') != 'Unconfined'"
            " && object.metadata.?annotations.orValue({})"
            f".all(k, !k.startsWith('{_APPARMOR}')"
            " || object.metadata.annotations[k] in ['runtime/default', '']"
            " || object.metadata.annotations[k].startsWith('localhost/'))",
            "keeps the profile of AppArmor",
        ),
        (
            f"{_each(_selinux(_OWN))} && {_selinux(_SHARED)}",
            "has no user, role or type of SELinux of its own",
        ),
        (
            f"{_SHARED}.?sysctls.orValue([]).size() == 0",
            "sets no sysctl",
        ),
        (
            "variables.containers.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
            "has no port of its node",
        ),
        (
            f"variables.containers.all(c, [{hosts}].all(h, h == ''))",
            "has no other host in its probes and hooks",
        ),
    ]


def _each(condition: str) -> str:
    """CEL: this holds of each container, whose security context is :data:`_OWN`."""
    return f"variables.containers.all(c, {condition})"


def _selinux(context: str) -> str:
    options = f"{context}.?seLinuxOptions"
    return (
        f"{options}.?type.orValue('') in {list(SELINUX)!r}"
        f" && {options}.?user.orValue('') == '' && {options}.?role.orValue('') == ''"
    )
