"""Plugins are loaded one by one: a broken one is named, left out, and stops nobody."""

from types import SimpleNamespace

import msgspec
import pytest

from liqod.errors import ConfigError
from liqod.kube.kinds import CONFIG_MAPS, SERVICES
from liqod.plugins import loader
from liqod.plugins.contracts import NOTHING, Governor, Reflector, There
from liqod.plugins.discovery import manual
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.loader import Source
from liqod.plugins.providers import DiscoveryProvider


def nothing(source, view):
    return NOTHING


def reflector(name="gadgets", **more):
    return Reflector(
        **{
            "name": name,
            "kind": CONFIG_MAPS,
            "outgoing": nothing,
            "there": (There(kind=CONFIG_MAPS),),
            **more,
        }
    )


def plugin(*provided):
    return SimpleNamespace(liqod_reflectors=hookimpl(lambda: list(provided)))


def source(name, load):
    return Source(name, f"{name}-package", "1.2", load)


def load(*sources, blocked=()):
    return loader.load(blocked=blocked, sources=sources)


def why(plugins, name):
    return next(record for record in plugins.records if record.name == name).why


def test_what_is_built_in_loads():
    plugins = loader.load(sources=loader.built_in())
    assert [record.name for record in plugins.records if record.state != "active"] == []
    assert {found.name for found in plugins.reflectors} >= {"pods", "services", "configmaps"}
    assert [found.name for found in plugins.discovery] == ["manual"]


def test_a_plugin_is_recorded_with_its_package_and_version():
    plugins = load(source("ours", lambda: plugin(reflector())))
    assert plugins.reflector("gadgets") is not None
    record = plugins.records[0]
    assert (record.kind, record.package, record.version, record.state) == (
        "reflector",
        "ours-package",
        "1.2",
        "active",
    )


def explode():
    raise ZeroDivisionError("at import")


def raising():
    raise ValueError("in the hook")


async def asynchronous():
    return []


@hookimpl
def liqod_reflector():
    return []


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (explode, "ZeroDivisionError: at import"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(raising)), "in the hook"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(asynchronous)), "asynchronous"),
        (lambda: SimpleNamespace(liqod_reflector=liqod_reflector), "unknown hook"),
        (SimpleNamespace, "implements none"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(lambda: 7)), "returned int"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(lambda: [7])), "not a Reflector"),
    ],
)
def test_a_broken_plugin_is_left_out_and_stops_nobody(broken, reason):
    plugins = load(source("broken", broken), source("ours", lambda: plugin(reflector())))
    assert plugins.reflector("gadgets") is not None
    assert reason in why(plugins, "broken")


async def waits(source, view):
    return NOTHING


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"api": 99}, "version 99"),
        ({"outgoing": waits}, "asynchronous"),
        ({"there": ()}, "names no kind"),
        ({"governor": Governor(reflector="services", kind=SERVICES, label="x")}, "not among"),
    ],
)
def test_a_reflector_that_breaks_the_contract_is_left_out(wrong, reason):
    plugins = load(source("ours", lambda: plugin(reflector(**wrong), reflector("fine"))))
    assert reason in why(plugins, "gadgets")
    assert plugins.reflector("fine") is not None


def test_the_first_of_a_name_has_it():
    first, second = reflector(), reflector(concurrency=9)
    plugins = load(source("a", lambda: plugin(first)), source("b", lambda: plugin(second)))
    assert plugins.reflectors == (first,)
    assert [record.state for record in plugins.records] == ["active", "left out"]


@pytest.mark.parametrize("blocked", ["ours", "gadgets"])
def test_the_configuration_blocks_an_entry_point_or_what_it_provides(blocked):
    plugins = load(source("ours", lambda: plugin(reflector())), blocked=[blocked])
    assert plugins.reflectors == ()
    assert [record.state for record in plugins.records] == ["blocked"]


def test_blocking_makes_room_for_another():
    other = reflector(concurrency=9)
    sources = (source("a", lambda: plugin(reflector())), source("b", lambda: plugin(other)))
    assert load(*sources, blocked=["a"]).reflectors == (other,)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    interval: float = 1.0


def test_settings_are_decoded_strictly_by_the_plugins_own_type():
    provider = DiscoveryProvider(name="dns", build=manual.build, config_type=Settings)
    assert loader.settings_of(provider, {"interval": 2.0}) == Settings(2.0)
    with pytest.raises(ConfigError, match=r"plugins\.settings\.dns: .*interwal"):
        loader.settings_of(provider, {"interwal": 2.0})
