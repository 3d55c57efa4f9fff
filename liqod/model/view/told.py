"""Finds problems that only a running daemon knows: of plugins, reflection and sightings. Pure."""

from collections.abc import Iterable

from liqod.model.view.figures import counted
from liqod.model.view.problems import HINTS, Problem
from liqod.model.view.rows import Plugin, Sighting, Told

BROKEN = "PluginFails"
"""Reason of an object at which a plugin fails: it is reported as the plugin's problem."""
MOST_WAITING = 5
"""Most waiting clusters that are named: an announcer may make any number of them."""
MEND = "mend, block or remove the plugin; the log has more"


def told(
    plugins: Iterable[Plugin], reasons: Iterable[Told], sightings: Iterable[Sighting]
) -> tuple[Problem, ...]:
    """The problems of plugins, of objects that are not as wanted, and of clusters that wait."""
    found: list[Problem] = []
    for plugin in plugins:
        why = plugin.why if plugin.state == "left out" else plugin.failure
        if why:
            kind = "plugin" if plugin.kind == "plugin" else f"{plugin.kind} plugin"
            what = f"the {kind} {plugin.name} {_state(plugin)}: {why}"
            found.append(Problem(3, "", what, MEND, "plugins"))
    for row in reasons:
        if row.code == BROKEN:
            continue
        others = f" and {counted(row.objects - 1, 'other')}" if row.objects > 1 else ""
        what = f"{row.reflector} {row.example}{others}: {row.code}: {row.message}"
        found.append(Problem(HINTS, row.peer, what, "kubectl describe it"))
    waiting = 0
    for seen in sightings:
        waiting += not seen.problem and seen.waits
        if seen.problem:
            what = f"peering with it fails: {seen.problem}"
            found.append(Problem(2, seen.cluster_id, what, "check the kubeconfig of its entry"))
        elif seen.waits and waiting <= MOST_WAITING:
            what = f"{seen.plugin} sees it, and it is not peered with, as nobody has said so"
            remedy = f"a [[peers]] entry with id = '{seen.cluster_id}' says so"
            found.append(Problem(HINTS + 1, seen.cluster_id, what, remedy))
    if waiting > MOST_WAITING:
        more = f"{counted(waiting - MOST_WAITING, 'other sighting')} of clusters that nobody named"
        found.append(Problem(HINTS + 1, "", more, "`liqod discover` lists them", "plugins"))
    return tuple(sorted(found))


def _state(plugin: Plugin) -> str:
    return "is left out" if plugin.state == "left out" else "fails"
