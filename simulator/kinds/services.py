"""Services and EndpointSlices: addresses, node ports, defaults, and what never changes."""

import itertools
from typing import Any

from simulator.catalog import Resource
from simulator.kinds.base import Strategy, Surroundings, default, section
from simulator.wire.failures import ApiError, Cause, immutable, required, wrong

Json = dict[str, Any]

_EXPOSED = ("NodePort", "LoadBalancer")


class ServiceStrategy(Strategy):
    """Services, with addresses and node ports given by the cluster."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        spec = section(obj, "spec")
        default(spec, type="ClusterIP", sessionAffinity="None")
        for port in spec.get("ports") or ():
            default(port, protocol="TCP", targetPort=port.get("port"))
        if spec["sessionAffinity"] == "ClientIP":
            client = section(section(spec, "sessionAffinityConfig"), "clientIP")
            default(client, timeoutSeconds=10800)
        if spec["type"] != "ExternalName":
            default(
                spec,
                internalTrafficPolicy="Cluster",
                ipFamilies=["IPv4"],
                ipFamilyPolicy="SingleStack",
            )
        if spec["type"] in _EXPOSED:
            default(spec, externalTrafficPolicy="Cluster")
        if spec["type"] == "LoadBalancer":
            default(spec, allocateLoadBalancerNodePorts=True)

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        obj["status"] = {"loadBalancer": {}}
        _allocate(obj["spec"], around)

    def update(self, resource: Resource, new: Json, old: Json, around: Surroundings) -> None:
        """As the base class says."""
        super().update(resource, new, old, around)
        spec, before = new["spec"], old["spec"]
        if spec["type"] != "ExternalName" and before["type"] != "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                if field in before and not spec.get(field):
                    spec[field] = before[field]
        if spec["type"] in _EXPOSED:
            ports = {(p["port"], p["protocol"]): p for p in before.get("ports") or ()}
            for port in spec.get("ports") or ():
                known = ports.get((port["port"], port["protocol"]), {})
                if "nodePort" in known:
                    default(port, nodePort=known["nodePort"])
        else:
            _drop_ports(spec, before)
        _allocate(spec, around, before)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        spec = obj["spec"]
        causes = []
        if spec["type"] == "ExternalName":
            if not spec.get("externalName"):
                causes.append(required("spec.externalName"))
        elif not spec.get("ports") and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        names = [port.get("name") for port in spec.get("ports") or ()]
        if len(names) > 1:
            causes += [
                required(f"spec.ports[{index}].name")
                for index, name in enumerate(names)
                if not name
            ]
        for index, name in enumerate(names):
            if name and name in names[:index]:
                duplicate = f'Duplicate value: "{name}"'
                causes.append(Cause(f"spec.ports[{index}].name", duplicate, "FieldValueDuplicate"))
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("port")
            if not isinstance(number, int) or not 0 < number < 65536:
                detail = "must be between 1 and 65535, inclusive"
                causes.append(wrong(f"spec.ports[{index}].port", number, detail))
        before = (old or {}).get("spec") or {}
        families = spec.get("ipFamilies") or []
        if families[:1] != (before.get("ipFamilies") or families)[:1]:
            causes.append(wrong("spec.ipFamilies[0]", families, "may not change once set"))
        if spec.get("ipFamilyPolicy") == "SingleStack" and len(families) > 1:
            detail = "when multiple ipFamilies are specified, it must be one of both families"
            causes.append(wrong("spec.ipFamilyPolicy", "SingleStack", detail))
        external = "ExternalName" in (spec["type"], before.get("type"))
        if (
            before.get("clusterIP")
            and spec.get("clusterIP") != before["clusterIP"]
            and not external
        ):
            value = spec.get("clusterIPs") or [spec.get("clusterIP")]
            causes.append(wrong("spec.clusterIPs[0]", value, "may not change once set"))
        return causes


def _drop_ports(spec: Json, before: Json) -> None:
    """A service that is exposed no longer gives its node ports back, unless set anew."""
    old = {port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        if port.get("nodePort") in old:
            port.pop("nodePort", None)


def _allocate(spec: Json, around: Surroundings, before: Json | None = None) -> None:
    """Give addresses and node ports where they are due."""
    held = before or {}
    if spec["type"] == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(field, None)
    else:
        _allocate_addresses(spec, around, held)
    exposed = spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts")
    )
    if exposed:
        known = {port.get("nodePort") for port in held.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") or port["nodePort"] not in known:
                port["nodePort"] = around.allocate_port(port.get("nodePort") or 0)


def _allocate_addresses(spec: Json, around: Surroundings, held: Json) -> None:
    """Give an address of each family; those that the service has stay."""
    told = spec.get("clusterIPs") or [""]
    wanted = [spec.get("clusterIP") or told[0], *told[1:]]
    if wanted[0] == "None":
        spec |= {"clusterIP": "None", "clusterIPs": ["None"]}
        return
    families = _families(spec, around)
    known = held.get("clusterIPs") or ()
    given = [
        address if address in known else around.allocate_address(family, address)
        for family, address in itertools.zip_longest(
            families, wanted[: len(families)], fillvalue=""
        )
    ]
    spec |= {"clusterIP": given[0], "clusterIPs": given, "ipFamilies": families}


def _families(spec: Json, around: Surroundings) -> list[str]:
    """The families of a service, as its policy has it.

    Raises:
        ApiError: 422, the cluster lacks one.
    """
    named = spec["ipFamilies"]
    rest = [each for each in around.families if each not in named]
    families = [*named, *rest] if spec["ipFamilyPolicy"] != "SingleStack" else named
    lacks = [each for each in families if each not in around.families]
    if lacks or (spec["ipFamilyPolicy"] == "RequireDualStack" and len(families) < 2):
        said = f"spec.ipFamilies: Invalid value: {families}: not configured on this cluster"
        raise ApiError(422, "Invalid", said)
    return families


class EndpointSliceStrategy(Strategy):
    """The type of a slice's addresses never changes."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        for port in obj.get("ports") or ():
            default(port, name="", protocol="TCP")
        obj.setdefault("ports", None)
        if obj.get("endpoints") is None:
            obj["endpoints"] = None

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        causes = []
        if not obj.get("addressType"):
            causes.append(required("addressType"))
        elif old is not None and old.get("addressType") != obj["addressType"]:
            causes.append(immutable("addressType", obj["addressType"]))
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            if not endpoint.get("addresses"):
                field = f"endpoints[{index}].addresses"
                causes.append(required(field, "must contain at least 1 address"))
        return causes
