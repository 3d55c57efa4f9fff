"""Loads plugins one by one, each behind a wall: a broken one is named and left out.

The built-in plugins go through the same gate as packages that others install. Every plugin has a
register of its own, so that an implementation that raises, is asynchronous or answers nonsense
takes nothing with it but itself; what came of each is a :class:`Loaded` record, shown by
``liqod plugins``.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Literal

import msgspec
import pluggy

from liqod.errors import ConfigError, PluginError
from liqod.plugins import hookspecs
from liqod.plugins.contracts import API, Reflector
from liqod.plugins.diagnosis import Check
from liqod.plugins.providers import DiscoveryProvider, NetworkProvider

BUILT_IN: tuple[tuple[str, str], ...] = (
    ("pods", "liqod.plugins.reflectors.pods"),
    ("services", "liqod.plugins.reflectors.services"),
    ("endpointslices", "liqod.plugins.reflectors.endpointslices"),
    ("configmaps", "liqod.plugins.reflectors.configmaps"),
    ("secrets", "liqod.plugins.reflectors.secrets"),
    ("manual", "liqod.plugins.discovery.manual"),
    ("cluster-checks", "liqod.plugins.checks.cluster"),
    ("peer-checks", "liqod.plugins.checks.peers"),
)
"""Names and modules of the plugins that liqod brings; first, so that theirs is the name."""

HOOKS: Mapping[str, tuple[str, type[Any]]] = {
    "liqod_reflectors": ("reflector", Reflector),
    "liqod_discovery": ("discovery", DiscoveryProvider),
    "liqod_network": ("network", NetworkProvider),
    "liqod_checks": ("check", Check),
}
"""Hook names, with the kind of plugin and the type that each must answer with."""

Provided = Reflector | DiscoveryProvider | NetworkProvider | Check

log = logging.getLogger(__name__)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one plugin, or of one thing that it provides.

    Attributes:
        name: name of what is provided; of the entry point where it provides nothing.
        kind: ``reflector``, ``discovery``, ``network``, ``check``; ``plugin``: none known.
        version: version of the package that brought it.
        package: name of that package.
        state: ``active``, ``blocked`` by the configuration, or ``left out``.
        why: one sentence where it is not active.
    """

    name: str
    kind: str
    version: str
    package: str
    state: Literal["active", "blocked", "left out"]
    why: str = ""


class Source(msgspec.Struct, frozen=True):
    """Where a plugin can be had, before anything of it has been imported.

    Attributes:
        name: its name.
        package: the package that brings it.
        version: of that package.
        load: imports and returns the plugin; may raise anything.
    """

    name: str
    package: str
    version: str
    load: Callable[[], Any]


class Plugins(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded, and what was left out.

    Attributes:
        reflectors: in the order in which they were loaded.
        discovery: ways of seeing clusters.
        network: tunnel backends.
        checks: layers that the doctor looks at, the lowest first.
        records: one for each, and one for each that was left out.
    """

    reflectors: tuple[Reflector, ...] = ()
    discovery: tuple[DiscoveryProvider, ...] = ()
    network: tuple[NetworkProvider, ...] = ()
    checks: tuple[Check, ...] = ()
    records: tuple[Loaded, ...] = ()

    def reflector(self, name: str) -> Reflector | None:
        """The active reflector of that name."""
        return next((found for found in self.reflectors if found.name == name), None)


def built_in() -> list[Source]:
    """The plugins that liqod brings itself."""
    version = _version("liqod")

    def loading(module: str) -> Callable[[], ModuleType]:
        return lambda: import_module(module)

    return [Source(name, "liqod", version, loading(module)) for name, module in BUILT_IN]


def installed() -> list[Source]:
    """The plugins of other packages, by entry point."""
    return [
        Source(
            point.name,
            point.dist.name if point.dist is not None else "",
            point.dist.version if point.dist is not None else "",
            point.load,
        )
        for point in metadata.entry_points(group=hookspecs.ENTRY_POINTS)
    ]


def load(*, blocked: Sequence[str] = (), sources: Iterable[Source] | None = None) -> Plugins:
    """Load what is built in and installed, but for what is blocked. Raises nothing.

    A blocked name is that of an entry point or of one thing that a plugin provides; blocking a
    built-in one makes room for another of the same name.
    """
    found = [*built_in(), *installed()] if sources is None else list(sources)
    active: dict[tuple[str, str], Provided] = {}
    records: list[Loaded] = []
    for source in found:
        for name, kind, provided, state, why in _load_one(source, frozenset(blocked)):
            if provided is not None and (kind, name) in active:
                state, why = "left out", f"there is a {kind} of that name already"
            elif provided is not None and state == "active":
                active[kind, name] = provided
            if state == "left out":
                log.warning("plugin left out", extra={"plugin": name, "why": why})
            records.append(
                Loaded(
                    name=name,
                    kind=kind,
                    version=source.version,
                    package=source.package,
                    state=state,
                    why=why,
                )
            )
    values = tuple(active.values())
    return Plugins(
        reflectors=tuple(value for value in values if isinstance(value, Reflector)),
        discovery=tuple(value for value in values if isinstance(value, DiscoveryProvider)),
        network=tuple(value for value in values if isinstance(value, NetworkProvider)),
        checks=tuple(
            sorted(
                (value for value in values if isinstance(value, Check)),
                key=lambda check: check.order,
            )
        ),
        records=tuple(records),
    )


State = Literal["active", "blocked", "left out"]
_Outcome = tuple[str, str, Provided | None, State, str]


def _load_one(source: Source, blocked: frozenset[str]) -> list[_Outcome]:
    """What one plugin provides, or the reason why it is left out. This is the wall."""
    if source.name in blocked:
        return [(source.name, "plugin", None, "blocked", "blocked by the configuration")]
    try:
        provided = _ask(source.name, source.load())
    except Exception as error:
        why = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        return [(source.name, "plugin", None, "left out", why)]
    outcomes: list[_Outcome] = []
    for kind, value in provided:
        problem = _problem(value)
        if value.name in blocked:
            outcomes.append((value.name, kind, None, "blocked", "blocked by the configuration"))
        elif problem is not None:
            outcomes.append((value.name, kind, None, "left out", problem))
        else:
            outcomes.append((value.name, kind, value, "active", ""))
    return outcomes


def _ask(name: str, plugin: Any) -> list[tuple[str, Provided]]:
    """Register a plugin alone and call its hooks.

    Raises:
        PluginError: it implements no hook, an unknown one, one asynchronously, or answers with
            something else than it should.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    for hook in HOOKS:
        implementation = getattr(plugin, hook, None)
        if inspect.iscoroutinefunction(implementation) or inspect.isasyncgenfunction(
            implementation
        ):
            raise PluginError(f"{hook} is asynchronous; hooks are plain functions")
    manager.register(plugin, name)
    manager.check_pending()
    if not manager.get_hookcallers(plugin):
        raise PluginError(f"it implements none of the hooks {', '.join(HOOKS)}")
    provided: list[tuple[str, Provided]] = []
    for hook, (kind, expected) in HOOKS.items():
        for answer in getattr(manager.hook, hook)():
            if not isinstance(answer, list | tuple):
                raise PluginError(f"{hook} returned {type(answer).__name__}, not a list")
            for value in answer:
                if not isinstance(value, expected):
                    raise PluginError(
                        f"{hook} returned a {type(value).__name__}, not a {expected.__name__}"
                    )
                provided.append((kind, value))
    return provided


def _problem(provided: Provided) -> str | None:
    """Why something provided cannot be used; None if it can."""
    if provided.api != API:
        return f"it is written for version {provided.api} of the contract; this is {API}"
    if isinstance(provided, Check) and inspect.iscoroutinefunction(provided.look):
        return "look is a plain function; this one is asynchronous"
    if not isinstance(provided, Reflector):
        return None
    functions = [provided.outgoing, provided.incoming]
    if any(inspect.iscoroutinefunction(function) for function in functions):
        return "outgoing and incoming are plain functions; one is asynchronous"
    if provided.governor is not None and provided.governor.kind not in {
        reads.kind for reads in provided.reads
    }:
        return f"its governor's kind {provided.governor.kind.name} is not among the kinds it reads"
    if not provided.there:
        return "it names no kind that it writes or watches at the peer"
    return None


def settings_of(provider: DiscoveryProvider | NetworkProvider, table: Mapping[str, Any]) -> Any:
    """A plugin's settings, decoded strictly by its own type.

    Raises:
        ConfigError: the table does not fit.
    """
    try:
        return msgspec.convert(dict(table), provider.config_type)
    except msgspec.ValidationError as error:
        raise ConfigError(f"plugins.settings.{provider.name}: {error}") from error


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
