"""Small states of the inspector for tests, one peer that is well unless told otherwise."""

from typing import Any

from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.rows import CheckRow, Ladder, Pulse, WidePeerRow
from liqod.model.view.state import LiveState

NOW = 1_800_000_000.0


def peer(name: str = "milan", **changes: Any) -> WidePeerRow:
    """A peer that is well."""
    values: dict[str, Any] = {
        "id": name,
        "role": "Provider",
        "api": "up",
        "pod_network": "none",
        "pods_out": 3,
        "pods_in": 0,
        "certificate_days": 300.0,
        "state": "active",
        "link": "up",
        "since": NOW - 3600,
        **changes,
    }
    return WidePeerRow(**values)


def state(*peers: WidePeerRow, **changes: Any) -> LiveState:
    """A state with these peers, each observed a second ago."""
    values: dict[str, Any] = {
        "daemon": ProcessFacts(cluster_id="rome", state="leading"),
        "peers": {each.id: each for each in peers},
        "pulses": {each.id: Pulse(heard=NOW - 1, rtt=0.002) for each in peers},
        **changes,
    }
    return LiveState(**values)


def failing(name: str, layer: str, *, since: float = NOW - 60, evidence: str = "no") -> Ladder:
    """A ladder whose second check fails."""
    return Ladder(
        name,
        (
            CheckRow("below", "what is below", "ok"),
            CheckRow(layer, f"the {layer}", "failing", since, evidence, "mend it"),
        ),
    )
