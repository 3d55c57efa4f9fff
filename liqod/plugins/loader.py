"""Loads plugins one by one, each behind a wall: a broken one is named and left out.

The built-in plugins go through the same gate as packages that others install. Every plugin has a
register of its own, so that an implementation that raises, is asynchronous or answers nonsense
takes nothing with it but itself; what came of each is a :class:`Loaded` record, shown by
``liqod plugins``.
"""

import inspect
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Literal

import msgspec
import pluggy

from liqod.errors import ConfigError, PluginError
from liqod.model.nearest import nearest
from liqod.model.text import printable
from liqod.plugins import declared, hookspecs
from liqod.plugins.codescan import system_task
from liqod.plugins.contracts import NoSettings, Reflector
from liqod.plugins.diagnosis import Check
from liqod.plugins.exceptions import described
from liqod.plugins.providers import DiscoveryProvider, TunnelProvider
from liqod.plugins.validation import provided_problem

BUILT_IN: tuple[tuple[str, str], ...] = (
    *declared.modules(),
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
"""The package of the built-in plugins."""

HOOKS: Mapping[str, tuple[str, type[Any]]] = {
    "liqod_reflectors": ("reflector", Reflector),
    "liqod_discovery": ("discovery", DiscoveryProvider),
    "liqod_network": ("network", TunnelProvider),
    "liqod_checks": ("check", Check),
}
"""Hook names, with the kind of plugin and the type that each must answer with."""

Provided = Reflector | DiscoveryProvider | TunnelProvider | Check
State = Literal["active", "blocked", "left out", "off"]

LATE = 3.0
"""Seconds after which one that is being loaded is named, as it holds up the start."""

UNKNOWN = re.compile(r"unknown field `([^`]*)`$")
"""The text of msgspec for an unknown key of a table, where it is no table within it."""

log = logging.getLogger(__name__)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of loading one plugin, or one thing that it provides.

    Attributes:
        name: name of the provided object; of the entry point where it provides none.
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


class PluginSource(msgspec.Struct, frozen=True):
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
    """The plugins that were loaded, and records of those that were left out.

    Attributes:
        reflectors: in the order in which they were loaded.
        discovery: discovery sources.
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


def built_in() -> list[PluginSource]:
    """The plugins that liqod brings itself."""
    version = _version(OWN)

    def loading(module: str) -> Callable[[], ModuleType]:
        return lambda: import_module(module)

    return [PluginSource(name, OWN, version, loading(module)) for name, module in BUILT_IN]


def installed() -> list[PluginSource]:
    """The plugins of other packages, by entry point."""
    return [
        PluginSource(
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
    sources: Iterable[PluginSource] | None = None,
    late: float = LATE,
) -> Plugins:
    """Load the built-in and installed plugins, except blocked ones.

    Args:
        blocked: names of entry points, or of things that a plugin provides; blocking a built-in
            one allows another of the same name.
        settings: the plugins' own tables of the configuration, by name.
        sources: the sources of plugins; by default the built-in and installed ones.
        late: seconds after which one that is being loaded is named.

    Raises:
        ConfigError: a table does not fit its plugin, or there is no such plugin. A plugin that is
            broken raises nothing.
    """
    found = [*built_in(), *installed()] if sources is None else list(sources)
    tables = settings or {}
    active: dict[tuple[str, str], Provided] = {}
    records: list[Loaded] = []
    for source in found:
        for name, kind, provided, state, why in load_one(source, frozenset(blocked), late):
            if provided is not None and (kind, name) in active:
                state, why = "left out", f"there is a {kind} of that name already"
            elif provided is not None and not _enabled(provided, tables):
                state, why = "off", f"an empty table [plugins.settings.{name}] switches it on"
            elif provided is not None and state == "active":
                active[kind, name] = provided
            record = Loaded(
                name=name,
                kind=kind,
                version=source.version,
                package=source.package,
                state=state,
                why=why,
            )
            records.append(_left_out(record, why) if state == "left out" else record)
    _refuse_unknown(tables, records, found)
    records = [_needing(each, active, records) for each in records]
    decoded: dict[tuple[str, str], Any] = {}
    for at, each in enumerate(records):
        value = active.get((each.kind, each.name)) if each.state == "active" else None
        if value is None:
            continue
        try:
            decoded[each.kind, each.name] = _settings_of(value, tables, active.values())
        except PluginError as error:
            records[at] = _left_out(each, str(error))
    active = {key: value for key, value in active.items() if key in decoded}
    values = tuple(active.values())
    return Plugins(
        settings=decoded,
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


def _needing(
    record: Loaded, active: Mapping[tuple[str, str], Provided], records: Iterable[Loaded]
) -> Loaded:
    """The record of one, left out where it is a check that needs a layer which there is not."""
    check = active.get((record.kind, record.name)) if record.state == "active" else None
    if not isinstance(check, Check):
        return record
    others = (each for each in active.values() if isinstance(each, Check) and each is not check)
    layers = {each.name for each in others if each.scope == check.scope}
    # One that is blocked, or left out itself, has a name all the same; its scope is unknown.
    layers |= {each.name for each in records if each.state in ("blocked", "left out")}
    strange = next((each for each in check.needs if each not in layers), None)
    if strange is None:
        return record
    what = f"no layer of a {check.scope}{nearest(strange, layers)}"
    return _left_out(record, f"needs names {strange!r}, which is {what}")


def _left_out(record: Loaded, why: str) -> Loaded:
    """The record of one that cannot be used."""
    text = printable(" ".join(why.split()))
    return msgspec.structs.replace(record, state="left out", why=text)


def log_loaded(plugins: Plugins) -> None:
    """Log the plugins that were left out."""
    for each in plugins.records:
        if each.state == "left out":
            what = each.name if each.kind == "plugin" else f"{each.kind} {each.name}"
            log.warning("the plugin %s of %s is left out: %s", what, each.package, each.why)


Outcome = tuple[str, str, Provided | None, State, str]
"""A name and a kind; the object provided; its state, and why it is not active."""


def _enabled(provided: Provided, tables: Mapping[str, Mapping[str, Any]]) -> bool:
    """True if it is to run: a discovery ``on_request`` runs where the configuration names it."""
    on_request = isinstance(provided, DiscoveryProvider) and provided.on_request
    return not on_request or provided.name in tables


def load_one(
    source: PluginSource, blocked: frozenset[str] = frozenset(), late: float = LATE
) -> list[Outcome]:
    """Load one plugin: all that it provides, or why it is left out. This is the wall."""
    if source.name in blocked:
        return [(source.name, "plugin", None, "blocked", "blocked by the configuration")]
    timer = _waited_for(source, late)
    try:
        plugin = source.load()
        provided = _call_hooks(source.name, plugin)
        problems = [provided_problem(value) for _, value in provided]
        if source.package != OWN and (task := system_task(plugin)):
            raise PluginError(f"{task}: what a system task raises would end the daemon")
    except BaseException as error:  # the wall: a module that exits is no reason to end
        why = str(error) if isinstance(error, PluginError) else described(error)
        return [(source.name, "plugin", None, "left out", why)]
    finally:
        timer.cancel()
    outcomes: list[Outcome] = []
    for (kind, value), problem in zip(provided, problems, strict=True):
        name = value.name if isinstance(value.name, str) and value.name else source.name
        if name in blocked:
            outcomes.append((name, kind, None, "blocked", "blocked by the configuration"))
        elif problem is not None:
            outcomes.append((name, kind, None, "left out", problem))
        else:
            outcomes.append((value.name, kind, value, "active", ""))
    return outcomes


def _waited_for(source: PluginSource, late: float) -> threading.Timer:
    """A timer that logs a plugin's name when its import or a hook does not return in time."""
    text = "the plugin %s of %s has not come back for %g s, and the start waits for it"
    timer = threading.Timer(late, log.warning, (text, source.name, source.package, late))
    timer.daemon = True
    if source.package != OWN:
        timer.start()
    return timer


def _call_hooks(name: str, plugin: Any) -> list[tuple[str, Provided]]:
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
    callers = {each.name for each in manager.get_hookcallers(plugin) or ()}
    for hook in HOOKS.keys() - callers:
        if callable(getattr(plugin, hook, None)):
            raise PluginError(f"{hook} is there, but not marked with @hookimpl")
    if not callers:
        raise PluginError(f"it implements none of the hooks {', '.join(HOOKS)}")
    provided: list[tuple[str, Provided]] = []
    for hook, (kind, expected) in HOOKS.items():
        answers = getattr(manager.hook, hook)()
        if hook in callers and not answers:
            raise PluginError(f"{hook} returned None, not a list")
        for answer in answers:
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
    """A plugin's settings, decoded strictly by its own type.

    Raises:
        ConfigError: the table does not fit.
        PluginError: the type breaks at it.

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
        meant = _meant(str(error), provided.config_type)
        raise ConfigError(f"plugins.settings.{provided.name}: {error}{meant}") from error
    except BaseException as error:  # the wall
        raise PluginError(f"its config_type raised {described(error)}") from error


def _meant(message: str, config_type: type[Any]) -> str:
    """The setting that may have been meant, where an error names one that there is not."""
    unknown = UNKNOWN.search(message)
    if unknown is None or not issubclass(config_type, msgspec.Struct):
        return ""
    known = [field.encode_name for field in msgspec.structs.fields(config_type)]
    return nearest(unknown.group(1), known, f"; known are {', '.join(known)}" if known else "")


def _refuse_unknown(
    tables: Iterable[str], records: Iterable[Loaded], sources: Iterable[PluginSource]
) -> None:
    """Raise ConfigError for a table that belongs to no plugin; one may be blocked or left out."""
    known = {each.name for each in records} | {each.name for each in sources}
    for name in tables:
        if name not in known:
            meant = nearest(name, known, "; `liqod plugins` lists them")
            raise ConfigError(f"plugins.settings.{name}: there is no plugin of that name{meant}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
