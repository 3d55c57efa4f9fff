"""Loads plugins one by one, each behind a wall: a broken one is named and left out.

The built-in plugins go through the same gate as packages that others install. Every plugin has a
register of its own, so that an implementation that raises, is asynchronous or answers nonsense
takes nothing with it but itself; what came of each is a :class:`Loaded` record, shown by
``liqod plugins``.
"""

import difflib
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
from liqod.plugins.calls import described
from liqod.plugins.contracts import NoSettings, Reflector
from liqod.plugins.diagnosis import Check
from liqod.plugins.providers import DiscoveryProvider, TunnelProvider
from liqod.plugins.sound import fault

BUILT_IN: tuple[tuple[str, str], ...] = (
    ("pods", "liqod.plugins.reflectors.pods"),
    ("services", "liqod.plugins.reflectors.services"),
    ("endpointslices", "liqod.plugins.reflectors.endpointslices"),
    ("ingresses", "liqod.plugins.reflectors.ingresses"),
    ("disruptionbudgets", "liqod.plugins.reflectors.disruptionbudgets"),
    ("configmaps", "liqod.plugins.reflectors.configmaps"),
    ("secrets", "liqod.plugins.reflectors.secrets"),
    ("tokens", "liqod.plugins.reflectors.tokens"),
    ("claims", "liqod.plugins.reflectors.claims"),
    ("manual", "liqod.plugins.discovery.manual"),
    ("mdns", "liqod.plugins.discovery.mdns"),
    ("dns-srv", "liqod.plugins.discovery.dns_srv"),
    ("clusterprofile", "liqod.plugins.discovery.clusterprofile"),
    ("wireguard", "liqod.plugins.network.wireguard"),
    ("websocket", "liqod.plugins.network.websocket"),
    ("vxlan", "liqod.plugins.network.vxlan"),
    ("cluster-checks", "liqod.plugins.checks.cluster"),
    ("peer-checks", "liqod.plugins.checks.peers"),
    ("network-checks", "liqod.plugins.checks.network"),
)
"""Names and modules of the plugins that liqod brings; first, so that theirs is the name."""

OWN = "liqod"
"""The package of what is built in."""

HOOKS: Mapping[str, tuple[str, type[Any]]] = {
    "liqod_reflectors": ("reflector", Reflector),
    "liqod_discovery": ("discovery", DiscoveryProvider),
    "liqod_network": ("network", TunnelProvider),
    "liqod_checks": ("check", Check),
}
"""Hook names, with the kind of plugin and the type that each must answer with."""

Provided = Reflector | DiscoveryProvider | TunnelProvider | Check
State = Literal["active", "blocked", "left out", "off"]

log = logging.getLogger(__name__)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one plugin, or of one thing that it provides.

    Attributes:
        name: name of what is provided; of the entry point where it provides nothing.
        kind: ``reflector``, ``discovery``, ``network``, ``check``; ``plugin``: none known.
        version: version of the package that brought it.
        package: name of that package.
        state: ``active``, ``blocked`` by the configuration, ``left out``, or ``off`` until the
            configuration names it.
        why: one sentence where it is not active.
    """

    name: str
    kind: str
    version: str
    package: str
    state: State
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
        settings: of each, by kind and name, as its own type has them.
        own: kind and name of those that are part of liqod.
    """

    reflectors: tuple[Reflector, ...] = ()
    discovery: tuple[DiscoveryProvider, ...] = ()
    network: tuple[TunnelProvider, ...] = ()
    checks: tuple[Check, ...] = ()
    records: tuple[Loaded, ...] = ()
    settings: Mapping[tuple[str, str], Any] = {}
    own: frozenset[tuple[str, str]] = frozenset()

    def reflector(self, name: str) -> Reflector | None:
        """The active reflector of that name."""
        return next((found for found in self.reflectors if found.name == name), None)


def built_in() -> list[Source]:
    """The plugins that liqod brings itself."""
    version = _version(OWN)

    def loading(module: str) -> Callable[[], ModuleType]:
        return lambda: import_module(module)

    return [Source(name, OWN, version, loading(module)) for name, module in BUILT_IN]


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


def load(
    *,
    blocked: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    sources: Iterable[Source] | None = None,
) -> Plugins:
    """Load what is built in and installed, but for what is blocked.

    Args:
        blocked: names of entry points, or of things that a plugin provides; blocking a built-in
            one makes room for another of the same name.
        settings: the plugins' own tables of the configuration, by name.
        sources: where plugins are to be had, if not what is built in and installed.

    Raises:
        ConfigError: a table does not fit its plugin, or there is no such plugin. A plugin that is
            broken raises nothing.
    """
    found = [*built_in(), *installed()] if sources is None else list(sources)
    tables = settings or {}
    active: dict[tuple[str, str], Provided] = {}
    records: list[Loaded] = []
    for source in found:
        for name, kind, provided, state, why in _load_one(source, frozenset(blocked)):
            if provided is not None and (kind, name) in active:
                state, why = "left out", f"there is a {kind} of that name already"
            elif provided is not None and not _wanted(provided, tables):
                state, why = "off", f"an empty table [plugins.settings.{name}] switches it on"
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
    _all_known(tables, records, found)
    return Plugins(
        settings={key: _settings_of(value, tables, values) for key, value in active.items()},
        own=frozenset((each.kind, each.name) for each in records if each.package == OWN),
        reflectors=tuple(value for value in values if isinstance(value, Reflector)),
        discovery=tuple(value for value in values if isinstance(value, DiscoveryProvider)),
        network=tuple(value for value in values if isinstance(value, TunnelProvider)),
        checks=tuple(
            sorted(
                (value for value in values if isinstance(value, Check)),
                key=lambda check: check.order,
            )
        ),
        records=tuple(records),
    )


_Outcome = tuple[str, str, Provided | None, State, str]


def _wanted(provided: Provided, tables: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether it is to run: some ways of seeing clusters do where the configuration names them."""
    on_request = isinstance(provided, DiscoveryProvider) and provided.on_request
    return not on_request or provided.name in tables


def _load_one(source: Source, blocked: frozenset[str]) -> list[_Outcome]:
    """What one plugin provides, or the reason why it is left out. This is the wall."""
    if source.name in blocked:
        return [(source.name, "plugin", None, "blocked", "blocked by the configuration")]
    try:
        provided = _ask(source.name, source.load())
    except BaseException as error:  # the wall: a module that exits is no reason to end
        why = str(error) if isinstance(error, PluginError) else described(error)
        return [(source.name, "plugin", None, "left out", why)]
    outcomes: list[_Outcome] = []
    for kind, value in provided:
        problem = fault(value)
        name = value.name if isinstance(value.name, str) and value.name else source.name
        if name in blocked:
            outcomes.append((name, kind, None, "blocked", "blocked by the configuration"))
        elif problem is not None:
            outcomes.append((name, kind, None, "left out", problem))
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


def _settings_of(
    provided: Provided, tables: Mapping[str, Mapping[str, Any]], others: Iterable[Provided]
) -> Any:
    """A plugin's settings, decoded strictly by its own type. Raises ConfigError.

    Of things of one name (a reflector and its check) the table is for those that have settings.
    """
    table = tables.get(provided.name, {})
    namesakes = (each for each in others if each.name == provided.name)
    if provided.config_type is NoSettings and any(
        each.config_type is not NoSettings for each in namesakes
    ):
        table = {}
    try:
        return msgspec.convert(dict(table), provided.config_type)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"plugins.settings.{provided.name}: {error}") from error


def _all_known(tables: Iterable[str], records: Iterable[Loaded], sources: Iterable[Source]) -> None:
    """Raise ConfigError for a table that belongs to no plugin; one may be blocked or left out."""
    known = {each.name for each in records} | {each.name for each in sources}
    for name in tables:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else "; `liqod plugins` lists them"
            raise ConfigError(f"plugins.settings.{name}: there is no plugin of that name{meant}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
