"""Declarations that a package's reflector may make, and those that are refused from anybody."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import Kind
from liqod.plugins import hookspecs, loader
from liqod.plugins.contracts import (
    CONFIG_MAPS,
    NOTHING,
    READ,
    SECRETS,
    AdmissionPolicy,
    Grant,
    OptIn,
    Reads,
    Reflector,
    RemoteKind,
    Right,
    Validation,
)
from liqod.plugins.loader import PluginSource
from liqod.plugins.overreach import overreach
from liqod.plugins.reflectors import ingresses

GADGETS = Kind("example.com", "v1", "Gadget", "gadgets")
PARTS = Kind("example.com", "v1", "Part", "parts")


def right(group: str, resource: str, *verbs: str, why: str = "they are reflected") -> Right:
    return Right(group=group, resources=(resource,), verbs=verbs, why=why)


GOOD = Reflector(
    name="gadgets",
    kind=GADGETS,
    outgoing=lambda gadget, view: NOTHING,
    remote=(RemoteKind(kind=GADGETS),),
    reads=(Reads(CONFIG_MAPS),),
    local=(PARTS,),
    rights=(
        right("example.com", "gadgets", *READ),
        right("example.com", "parts", *READ, "create", "patch", "delete"),
    ),
    grant=Grant(quota={"count/gadgets.example.com": "100"}),
)
BOUND = {"count/gadgets.example.com": "100"}


def of(**changed: Any) -> Reflector:
    return msgspec.structs.replace(GOOD, **changed)


def writing(kind: Kind) -> Reflector:
    """One that would have consumers write a kind."""
    quota = {f"count/{kind.plural}.{kind.group}": "100"}
    return of(rights=(), remote=(RemoteKind(kind=kind),), grant=Grant(quota=quota))


def making(kind: Kind) -> Reflector:
    """One that would have the daemon make a kind."""
    verbs = (*READ, "create", "patch", "delete")
    return of(local=(kind,), rights=(right(kind.group, kind.plural, *verbs),))


def test_what_its_kinds_need_may_be_declared():
    assert overreach(GOOD) is None
    assert overreach(of(rights=(), grant=None)) is None


RBAC = "rbac.authorization.k8s.io"
HOSTILE = {
    "everything": (of(rights=(right("*", "*", "*"),)), "do not need"),
    "any verb of its kind": (of(rights=(right("example.com", "gadgets", "*"),)), "do not need"),
    "more than it needs": (of(rights=(right("example.com", "gadgets", "delete"),)), "do not need"),
    "escalation": (of(rights=(right(RBAC, "clusterroles", "escalate"),)), "do not need"),
    "all Secrets": (of(rights=(right("", "secrets", *READ),)), "do not need"),
    "Secrets that it says it reads": (
        of(reads=(Reads(SECRETS, everywhere=True),), rights=(right("", "secrets", *READ),)),
        "no package is granted",
    ),
    "roles that it says it makes": (
        making(Kind(RBAC, "v1", "ClusterRole", "clusterroles")),
        "no package is granted",
    ),
    "Deployments": (
        making(Kind("apps", "v1", "Deployment", "deployments")),
        "no package is granted",
    ),
    "tenants of liqod": (
        making(Kind("authentication.liqo.io", "v1beta1", "Tenant", "tenants")),
        "no package is granted",
    ),
    "a kind that is a wildcard": (making(Kind("example.com", "v1", "All", "*")), "no resource"),
    "a group that is a wildcard": (making(Kind("*", "v1", "All", "alls")), "no resource"),
    "a sub-resource as a kind": (
        making(Kind("example.com", "v1", "Scale", "gadgets/scale")),
        "no resource",
    ),
    "a reason of several lines": (
        of(rights=(right("example.com", "gadgets", "get", why="1. it\n2. is well"),)),
        "reason",
    ),
    "no reason": (of(rights=(right("example.com", "gadgets", "get", why=""),)), "reason"),
    "consumers write pods": (writing(Kind("", "v1", "Pod", "pods")), "by no package"),
    "consumers write Secrets": (writing(SECRETS), "by no package"),
    "consumers write RoleBindings": (
        writing(Kind(RBAC, "v1", "RoleBinding", "rolebindings")),
        "by no package",
    ),
    "consumers write Jobs": (writing(Kind("batch", "v1", "Job", "jobs")), "by no package"),
    "consumers write what is in no namespace": (
        writing(Kind("example.com", "v1", "Site", "sites", namespaced=False)),
        "in no namespace",
    ),
    "no bound": (of(grant=Grant()), "is to bound count/gadgets.example.com"),
    "a bound on another's kind": (
        of(grant=Grant(quota={**BOUND, "count/secrets": "0"})),
        "and nothing else",
    ),
    **{
        f"a bound of {text}": (
            of(grant=Grant(quota={"count/gadgets.example.com": text})),
            "a number of 1 to 10000",
        )
        for text in ("0", "-1", "10001", "1e9", "100Gi", "", "9" * 400, "١")
    },
    "a finalizer": (of(grant=Grant(quota=BOUND, finalizers=("a.io/b",))), "hold back"),
    "consent for others": (
        of(grant=Grant(quota=BOUND, opt_in=OptIn(name="x", word="x"))),
        "has consented",
    ),
    "the lists of guests": (
        of(
            grant=Grant(
                quota=BOUND,
                policy=AdmissionPolicy(name="x", validations=(), variables={"strangeLabels": "[]"}),
            )
        ),
        "cannot be a variable",
    ),
    "a message that forges lines": (
        of(
            grant=Grant(
                quota=BOUND,
                policy=AdmissionPolicy(name="x", validations=(Validation("true", "a\nb"),)),
            )
        ),
        "of one line",
    ),
}


@pytest.mark.parametrize("what", list(HOSTILE))
def test_what_would_give_more_is_refused(what: str):
    reflector, why = HOSTILE[what]
    assert why in (overreach(reflector) or "")


def plugin(reflector: Reflector) -> type:
    class Plugin:
        @staticmethod
        @hookspecs.hookimpl
        def liqod_reflectors() -> list[Reflector]:
            return [reflector]

    return Plugin


def test_a_daemon_goes_on_with_a_package_s_own_version_of_a_built_in_reflector():
    """The daemon has its rights anyway: declared ones are granted by an installation alone."""
    source = PluginSource("ingresses", "liqod-ingresses", "1", lambda: plugin(ingresses.REFLECTOR))
    assert loader.load(sources=[source]).reflectors == (ingresses.REFLECTOR,)
    assert "no package is granted" in (overreach(ingresses.REFLECTOR) or "")
