"""The rights, quota and policy that packages' reflectors declare, as ``liqod install`` grants them.

The code of a package is loaded where the operator names it, and of no other. Rights here and those
of consumers are granted apart: a cluster may reflect a kind to peers and take none of it. Grants
stay through upgrades that name no package, and go with ``liqod uninstall`` or by their label.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.install.daemonrights import DAEMON_ROLES, DaemonRule
from liqod.install.rights import AGGREGATE_TO_DAEMON, AGGREGATE_TO_REMOTE, REASONS, reasons
from liqod.model.nearest import nearest
from liqod.model.objects.rbac import rule
from liqod.plugins import declared, loader
from liqod.plugins.contracts import AdmissionPolicy, Reflector
from liqod.plugins.loader import PluginSource
from liqod.plugins.overreach import overreach
from liqod.provider.policies import guestkeys
from liqod.provider.policies.cel import (
    GUEST,
    GUEST_CLAIMS,
    for_guests,
    no_finalizers,
    no_owners,
    refusal,
)
from liqod.provider.policies.cel import rule as held

Manifest = dict[str, Any]

PREFIX: Final = "liqod-plugin-"
"""Prefix of the names of all objects of packages' reflectors."""
PACKAGE: Final = "liqod.io/package"
"""Annotation of them: the package and its version that declared it."""


class Declared(msgspec.Struct, frozen=True):
    """A reflector of a package, as its package brings it."""

    reflector: Reflector
    package: str


def load(names: Iterable[str], sources: Iterable[PluginSource] | None = None) -> list[Declared]:
    """The reflectors of these entry points of ``liqod.plugins``; nothing else is imported.

    Args:
        names: of entry points.
        sources: where packages' plugins are to be had, if not what is installed.

    Raises:
        ConfigError: there is no such plugin, or more than one, it has no reflector, or one of them
            cannot be used or declares more than it may have; the message says what.
    """
    known = loader.installed() if sources is None else list(sources)
    made: list[Declared] = []
    for name in dict.fromkeys(names):
        found = [each for each in known if each.name == name]
        if not found:
            meant = nearest(name, (each.name for each in known), "; is its package installed here?")
            raise ConfigError(f"there is no plugin {name}{meant}")
        if len(found) > 1:
            packages = ", ".join(each.package for each in found)
            raise ConfigError(f"there are several plugins {name}: of {packages}")
        made += _reflectors(found[0])
    return made


def _reflectors(source: PluginSource) -> list[Declared]:
    """The reflectors of one plugin, loaded behind the wall of the loader."""
    made: list[Declared] = []
    for _, kind, provided, state, why in loader.load_one(source):
        if state == "left out" and kind in ("plugin", "reflector"):
            raise ConfigError(f"the plugin {source.name} of {source.package}: {why}")
        if isinstance(provided, Reflector):
            if wrong := overreach(provided):
                raise ConfigError(f"the plugin {source.name} of {source.package}: {wrong}")
            made.append(Declared(provided, f"{source.package} {source.version}"))
    if not made:
        raise ConfigError(f"the plugin {source.name} of {source.package} has no reflector")
    return made


def here(of: Declared) -> list[Manifest]:
    """Manifests of the role by which this cluster's daemon may reflect the kind to peers.

    Raises:
        ConfigError: it declares less than the engine needs.
    """
    reflector = of.reflector
    rules = [
        DaemonRule(each.why, (each.group,), each.resources, each.verbs) for each in reflector.rights
    ]
    own = (each for group in DAEMON_ROLES.values() for each in group)
    has = {each for one in (*own, *rules) if not one.names for each in _singly(one)}
    lacks = sorted(declared.needed(reflector) - has)
    if lacks:
        group, resource, verb = lacks[0]
        what = f"{verb} of {resource} ({group or 'core'})"
        raise ConfigError(f"the reflector {reflector.name} declares no right to {what}")
    if not rules:
        return []
    made = _role(of, PREFIX + reflector.name, [each.manifest() for each in rules])
    made["metadata"]["annotations"][REASONS] = reasons(rules)
    made["metadata"]["labels"][AGGREGATE_TO_DAEMON] = labels.TRUE
    return [made]


def lent(of: Declared) -> list[Manifest]:
    """Manifests by which consumers may have the kind here, first the policy that limits them.

    Raises:
        ConfigError: it declares nothing that a provider could grant.
    """
    reflector, grant = of.reflector, of.reflector.grant
    if grant is None:
        raise ConfigError(f"the reflector {reflector.name} declares nothing to lend")
    kinds = declared.by_group(each.kind for each in reflector.written)
    rules = [rule((group,), tuple(names), declared.ALL) for group, names in kinds.items()]
    role = _role(of, f"{PREFIX}{reflector.name}-remote", rules)
    role["metadata"]["labels"][AGGREGATE_TO_REMOTE] = labels.TRUE
    policies = _policy(PREFIX + reflector.name, kinds, grant.policy)
    for each in policies:
        each["metadata"].update(_marks(of))
    quota = msgspec.json.encode(dict(grant.quota)).decode()
    policies[0]["metadata"]["annotations"][labels.OBJECT_QUOTA] = quota
    return [*policies, role]


def _policy(name: str, kinds: dict[str, list[str]], own: AdmissionPolicy | None) -> list[Manifest]:
    """Holds guests to what they may say in any object, and to what the reflector's policy says.

    An expression of its own is asked at the operations of its own alone.
    """
    said = own or AdmissionPolicy(name="", validations=())
    skipped = sorted({"CREATE", "UPDATE"} - set(said.operations))
    unless = "".join(f" || request.operation == '{each}'" for each in skipped)
    return for_guests(
        name,
        [held(group, plurals, ["CREATE", "UPDATE"]) for group, plurals in kinds.items()],
        no_finalizers(),
        no_owners(),
        *guestkeys.key_validations(),
        *(refusal(f"({each.expression}){unless}", each.message) for each in said.validations),
        variables={**guestkeys.key_variables(), **said.variables},
        held=GUEST_CLAIMS if said.controllers else GUEST,
    )


def shown(manifests: Iterable[Manifest]) -> list[str]:
    """Lines for people, one for each rule of the roles among manifests, with its holder."""
    lines = []
    for each in manifests:
        if each["kind"] != "ClusterRole":
            continue
        remote = AGGREGATE_TO_REMOTE in each["metadata"]["labels"]
        who = "consumers, in their namespaces here" if remote else "this cluster's daemon"
        package = each["metadata"]["annotations"][PACKAGE]
        for one in each["rules"]:
            verbs, what = ", ".join(one["verbs"]), ", ".join(one["resources"])
            lines.append(f"{package}: {who}: {verbs} of {what} ({one['apiGroups'][0] or 'core'})")
    return lines


def _singly(one: DaemonRule) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for group in one.groups
        for resource in one.resources
        for verb in one.verbs
    }


def _role(of: Declared, name: str, rules: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, **_marks(of)},
        "rules": rules,
    }


def _marks(of: Declared) -> Manifest:
    return {
        "labels": {labels.PLUGIN: of.reflector.name},
        "annotations": {PACKAGE: of.package},
    }
