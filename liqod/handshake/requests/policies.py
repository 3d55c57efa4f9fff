"""Decides about requests to borrow, and how much is granted: functions of values.

The configuration's ``[[policies]]`` say who is granted something without a person, who is left to
the inbox and who is refused; an invitation says it for its bearer. A grant is a number for each
resource, defaults of this cluster included, so that it does not change when those do. A resource
that a grant does not name is not granted.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from liqod.configsections import PeerPolicy
from liqod.errors import ConfigError
from liqod.model.objects import quantities

Action = Literal["auto", "ask", "deny"]
Resources = Mapping[str, int | str]


class PolicySubject(msgspec.Struct, frozen=True):
    """The requesting cluster, as far as a policy may look at it.

    Attributes:
        cluster_id: the id by which it asks to be known.
        key: SHA-256 of the public key that it has proved to have, hexadecimal.
        discoveries: discovery plugins that have seen that cluster with that key.
        labels: that it reports of itself.
        revoked: whether it was revoked here: then no policy and no invitation lets it in.
    """

    cluster_id: str
    key: str
    discoveries: frozenset[str] = frozenset()
    labels: Mapping[str, str] = {}
    revoked: bool = False


class PolicyDecision(msgspec.Struct, frozen=True):
    """The decision about a request.

    Attributes:
        action: ``auto``, ``ask`` or ``deny``.
        granted: the whole grant, where that is ``auto``.
        reason: why, for people.
    """

    action: Action
    granted: dict[str, str] = {}
    reason: str = ""


def judge(
    policies: tuple[PeerPolicy, ...], asker: PolicySubject, asked: Resources, defaults: Resources
) -> PolicyDecision:
    """The verdict on a cluster that brings no invitation.

    Args:
        policies: of the configuration, the first that fits counts.
        asker: who asks.
        asked: for what, by resource name.
        defaults: what this cluster grants where a slice names nothing.
    """
    for place, policy in enumerate(policies, 1):
        if fits(policy, asker):
            return _by_policy(policy, f"policy {place}", asker, asked, defaults)
    return PolicyDecision("ask", reason=_revoked(asker) or "no policy decides it: a person does")


def judge_invited(
    policies: tuple[PeerPolicy, ...],
    asker: PolicySubject,
    asked: Resources,
    offered: Resources,
    defaults: Resources,
) -> PolicyDecision:
    """The verdict on a cluster that brings an invitation that is good for it.

    A policy that denies goes before it, and so does a revocation. Of what it does not offer nothing
    is granted.

    Args:
        offered: what the invitation grants, by resource name.
        policies, asker, asked, defaults: as :func:`judge` takes them.
    """
    first = next((each for each in policies if fits(each, asker)), None)
    if first is not None and first.action == "deny":
        return PolicyDecision("deny", reason=f"policy {policies.index(first) + 1} denies it")
    if asker.revoked:
        return PolicyDecision("ask", reason=_revoked(asker))
    return PolicyDecision("auto", bounded(asked, {**defaults, **offered}), "by invitation")


def fits(policy: PeerPolicy, asker: PolicySubject) -> bool:
    """True if everything that a policy names matches the asker."""
    if policy.cluster_id and not fnmatchcase(asker.cluster_id, policy.cluster_id):
        return False
    if policy.key and policy.key != asker.key:
        return False
    if policy.discovery and not any(
        fnmatchcase(each, policy.discovery) for each in asker.discoveries
    ):
        return False
    if policy.label:
        name, _, pattern = policy.label.partition("=")
        return name in asker.labels and fnmatchcase(asker.labels[name], pattern)
    return True


def whole(asked: Resources, defaults: Resources) -> dict[str, str]:
    """All resources of a request: those that it names, and this cluster's defaults for the rest.

    Raises:
        ConfigError: a quantity is none, or is negative.
    """
    amounts = quantities.parse_all({**defaults, **asked})
    below = sorted(name for name, amount in amounts.items() if amount < 0)
    if below:
        raise ConfigError(f"negative quantities: {', '.join(below)}")
    return quantities.render_all(amounts)


def bounded(asked: Resources, bound: Resources) -> dict[str, str]:
    """The grant for a request: all resources of the bound, and no more of any than it has."""
    most = quantities.parse_all(bound)
    wanted = quantities.parse_all({name: asked[name] for name in most if name in asked})
    return quantities.render_all(
        {name: max(min(wanted.get(name, n), n), 0) for name, n in most.items()}
    )


def decided(asked: Resources, given: Resources, defaults: Resources) -> dict[str, str]:
    """The grant of a person: what they named, never more than requested, and the rest as requested.

    Args:
        asked: for what was asked, by resource name.
        given: what the person said, by resource name.
        defaults: as :func:`judge` takes them.

    Raises:
        ConfigError: a quantity is none, or is negative.
    """
    wanted = quantities.parse_all(whole(asked, defaults))
    said = quantities.parse_all(given)
    return quantities.render_all(
        {name: max(min(said.get(name, n), n), 0) for name, n in wanted.items()}
    )


def accepted(
    asked: Resources, kept: Resources, given: Resources, defaults: Resources
) -> dict[str, str]:
    """The grant of an accepted request.

    Args:
        kept: what was granted by a decision that is good for ever: it bounds what is asked later.
        asked, given, defaults: as :func:`decided` takes them.

    Raises:
        ConfigError: a quantity is none, or is negative.
    """
    return bounded(asked, kept) if kept else decided(asked, given, defaults)


def _by_policy(
    policy: PeerPolicy, where: str, asker: PolicySubject, asked: Resources, defaults: Resources
) -> PolicyDecision:
    if policy.action == "deny":
        return PolicyDecision("deny", reason=f"{where} denies it")
    if asker.revoked:
        return PolicyDecision("ask", reason=_revoked(asker))
    if policy.action == "ask":
        return PolicyDecision("ask", reason=f"{where} leaves it to a person")
    wanted = whole(asked, defaults)
    cap = {**defaults, **policy.max_resources}
    beyond = quantities.over(quantities.parse_all(wanted), quantities.parse_all(cap))
    if beyond:
        more = ", ".join(f"{name} {wanted[name]}" for name in beyond)
        most = ", ".join(f"{name} {cap.get(name, 0)}" for name in beyond)
        return PolicyDecision(
            "ask", reason=f"{where} grants at most {most}, and {more} is asked for"
        )
    return PolicyDecision("auto", wanted, f"{where} grants it")


def _revoked(asker: PolicySubject) -> str:
    return "it was revoked here" if asker.revoked else ""
