"""Plugins are loaded one by one: a broken one is named, left out, and stops nobody."""

import importlib
from types import SimpleNamespace

import msgspec
import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, SERVICES
from liqod.errors import ConfigError
from liqod.network.loadedbackends import load_backends
from liqod.plugins import loader
from liqod.plugins.contracts import NOTHING, Governor, Reflector, RemoteKind, Several
from liqod.plugins.diagnosis import Check
from liqod.plugins.discovery import manual
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.loader import PluginSource
from liqod.plugins.providers import DiscoveryProvider, TunnelProvider


def nothing(source, view):
    return NOTHING


def reflector(name="gadgets", **more):
    return Reflector(
        **{
            "name": name,
            "kind": CONFIG_MAPS,
            "outgoing": nothing,
            "remote": (RemoteKind(kind=CONFIG_MAPS),),
            **more,
        }
    )


def plugin(*provided):
    return SimpleNamespace(liqod_reflectors=hookimpl(lambda: list(provided)))


def source(name, load):
    return PluginSource(name, f"{name}-package", "1.2", load)


def load(*sources, blocked=(), settings=None):
    return loader.load(blocked=blocked, settings=settings, sources=sources)


def why(plugins, name):
    return next(record for record in plugins.records if record.name == name).why


def test_what_is_built_in_loads():
    plugins = loader.load(sources=loader.built_in())
    away = {record.name: record.state for record in plugins.records if record.state != "active"}
    assert away == dict.fromkeys(["mdns", "dns-srv", "clusterprofile"], "off")
    assert {found.name for found in plugins.reflectors} >= {"pods", "services", "configmaps"}
    assert [found.name for found in plugins.discovery] == ["manual"]


def test_a_way_of_seeing_clusters_may_wait_until_it_is_named():
    provider = DiscoveryProvider(name="dns", build=manual.build, on_request=True)
    made = source("ours", lambda: SimpleNamespace(liqod_discovery=hookimpl(lambda: [provider])))
    plugins = load(made)
    assert plugins.discovery == ()
    assert plugins.records[0].state == "off"
    assert "[plugins.settings.dns] switches it on" in why(plugins, "dns")
    assert load(made, settings={"dns": {}}).discovery == (provider,)
    assert load(made, settings={"dns": {}}, blocked=["dns"]).discovery == ()


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


def leave():
    raise SystemExit(3)


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
        (leave, "SystemExit: 3"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(raising)), "in the hook"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(asynchronous)), "asynchronous"),
        (lambda: SimpleNamespace(liqod_reflector=liqod_reflector), "unknown hook"),
        (SimpleNamespace, "implements none"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(lambda: 7)), "returned int"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(lambda: None)), "returned None"),
        (lambda: SimpleNamespace(liqod_reflectors=list), "not marked with @hookimpl"),
        (lambda: SimpleNamespace(liqod_reflectors=hookimpl(lambda: [7])), "not a Reflector"),
    ],
)
def test_a_broken_plugin_is_left_out_and_stops_nobody(broken, reason):
    plugins = load(source("broken", broken), source("ours", lambda: plugin(reflector())))
    assert plugins.reflector("gadgets") is not None
    assert reason in why(plugins, "broken")


async def waits(source, view):
    return NOTHING


def yields(source, view):
    yield NOTHING


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"api": 99}, "version 99"),
        ({"outgoing": waits}, "asynchronous"),
        ({"remote": ()}, "remote names no kind"),
        (
            {"remote": RemoteKind(kind=CONFIG_MAPS)},
            "remote is to be a tuple of RemoteKind, and is RemoteKind; one alone needs a comma "
            "after it",
        ),
        ({"remote": (CONFIG_MAPS,)}, "remote[0] is to be RemoteKind, and is Kind"),
        ({"remote": (RemoteKind(kind="ConfigMap"),)}, "remote[0].kind is to be Kind, and is str"),  # type: ignore[arg-type]
        ({"remote": (RemoteKind(kind=CONFIG_MAPS),) * 2}, "remote names ConfigMap twice"),
        ({"reads": (CONFIG_MAPS,)}, "reads[0] is to be Reads"),
        ({"always": "kube-root-ca.crt"}, "always is to be a tuple of text"),
        ({"name": 7}, "name is to be text, and is int 7"),
        ({"name": "a/b"}, "name is to be of small letters"),
        ({"policy": "DenyList"}, "policy is to be one of Policy.DENY_LIST"),
        ({"outgoing": None}, "outgoing is to be a function, and is NoneType None"),
        ({"outgoing": lambda source: NOTHING}, "outgoing has to take 2 values"),
        ({"outgoing": yields}, "asynchronous"),
        ({"incoming": lambda source, there, view: NOTHING}, "no kind with Watch.FULL"),
        ({"concurrency": 0}, "concurrency is to be 1 or more"),
        ({"concurrency": True}, "concurrency is to be a whole number"),
        ({"config_type": dict}, "config_type is to be a msgspec.Struct"),
        ({"several": Several.MERGED}, "combine belongs to"),
        ({"governor": Governor(reflector="services", kind=SERVICES, label="x")}, "not among"),
    ],
)
def test_a_reflector_that_breaks_the_contract_is_left_out(wrong, reason):
    plugins = load(source("ours", lambda: plugin(reflector(**wrong), reflector("fine"))))
    (left_out,) = [record for record in plugins.records if record.state == "left out"]
    assert reason in left_out.why
    assert plugins.reflector("gadgets") is None
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


def probing(asker):
    return None


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"scope": "node"}, "scope is to be 'cluster' or 'peer'"),
        ({"look": lambda: None}, "look has to take 1 values"),
        ({"order": "last"}, "order is to be a whole number"),
        ({"every": float("nan")}, "every is to be a number"),
        ({"every": 0}, "every is to be more than 0"),
        ({"needs": "api"}, "needs is to be a tuple of text"),
        ({"probe": lambda: None}, "probe has to take 1 values"),
    ],
)
def test_a_check_that_breaks_the_contract_is_left_out(wrong, reason):
    fields = {"name": "etcd", "title": "etcd", "scope": "peer", "order": 25, "look": probing}
    check = Check(**{**fields, **wrong})
    made = SimpleNamespace(liqod_checks=hookimpl(lambda: [check]))
    assert reason in why(load(source("ours", lambda: made)), "etcd")


def test_a_discovery_whose_build_takes_too_little_is_left_out():
    provider = DiscoveryProvider(name="dns", build=probing)  # type: ignore[arg-type]
    made = SimpleNamespace(liqod_discovery=hookimpl(lambda: [provider]))
    assert "build has to take 2 values" in why(load(source("ours", lambda: made)), "dns")


def test_settings_are_decoded_strictly_by_the_plugins_own_type():
    sources = [source("ours", lambda: plugin(reflector("dns", config_type=Settings)))]
    plugins = load(*sources, settings={"dns": {"interval": 2.0}})
    assert plugins.settings["reflector", "dns"] == Settings(2.0)
    assert load(*sources).settings["reflector", "dns"] == Settings()
    with pytest.raises(ConfigError, match=r"plugins\.settings\.dns: .*interwal"):
        load(*sources, settings={"dns": {"interwal": 2.0}})


def test_a_table_that_belongs_to_no_plugin_is_an_error():
    sources = [source("ours", lambda: plugin(reflector("dns")))]
    with pytest.raises(ConfigError, match=r"plugins\.settings\.dms: .* did you mean dns\?"):
        load(*sources, settings={"dms": {}})


@pytest.mark.parametrize("load_it", [explode, lambda: plugin(reflector("dns"))])
def test_the_table_of_a_plugin_that_does_not_run_is_none(load_it):
    plugins = load(source("ours", load_it), blocked=["dns"], settings={"ours": {}})
    assert plugins.settings == {}


class Painted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    paint: str = ""


def test_a_setting_that_is_not_known_is_told_with_the_one_that_may_be_meant():
    made = source("ours", lambda: plugin(reflector(config_type=Painted)))
    with pytest.raises(ConfigError, match=r"unknown field `pain`; did you mean paint\?"):
        load(made, settings={"gadgets": {"pain": "red"}})


def layer(name, **more):
    return Check(name=name, title=name, scope="peer", order=1, look=lambda facts: None, **more)


def checks(*found):
    return source("ours", lambda: SimpleNamespace(liqod_checks=hookimpl(lambda: list(found))))


def test_a_check_that_needs_what_is_no_layer_is_left_out():
    plugins = load(
        checks(layer("api"), layer("gadgets", needs=("apo",)), layer("b", needs=("api",)))
    )
    assert [each.name for each in plugins.checks] == ["api", "b"]
    assert (
        why(plugins, "gadgets")
        == "needs names 'apo', which is no layer of a peer; did you mean api?"
    )
    blocked = load(checks(layer("api"), layer("b", needs=("api",))), blocked=["api"])
    assert [each.name for each in blocked.checks] == ["b"]


def test_what_is_left_out_is_named_in_one_line(caplog):
    def explode():
        raise ValueError("one\n\x1b[31mtwo")

    plugins = load(source("broken", explode))
    assert why(plugins, "broken") == "ValueError: one \\x1b[31mtwo"
    loader.log_loaded(plugins)
    assert "the plugin broken of broken-package is left out: ValueError: one" in caplog.text


@pytest.mark.parametrize("text", ["import trio\ndef go(): trio.lowlevel.spawn_system_task(go)\n"])
def test_what_begins_a_task_that_no_wall_holds_is_left_out(text, tmp_path, monkeypatch):
    (tmp_path / "tasky").mkdir()
    inside = "from tasky.inner import go\nfrom liqod.plugins.hookspecs import hookimpl\n"
    hook = "@hookimpl\ndef liqod_reflectors():\n    return []\n"
    (tmp_path / "tasky" / "__init__.py").write_text(inside + hook)
    (tmp_path / "tasky" / "inner.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = load(source("tasky", lambda: importlib.import_module("tasky")))
    assert why(plugins, "tasky").startswith("go (inner.py:2) uses trio.lowlevel.spawn_system_task")


def test_of_backends_of_others_those_that_are_named_are_imported_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
):
    imported = list[str]()

    def source(name: str) -> PluginSource:
        made = TunnelProvider(name=name, build=lambda *_: None, encrypted=True, overhead=80)  # type: ignore[arg-type]

        def load() -> SimpleNamespace:
            imported.append(name)
            return SimpleNamespace(liqod_network=hookimpl(lambda: [made]))

        return PluginSource(name, "theirs", "1", load)

    monkeypatch.setattr(loader, "installed", lambda: [source("rope"), source("string")])
    tables = {"rope": {}, "mdns": {"interfaces": 7}, "wireguard": {}}
    found = load_backends(("wireguard", "rope"), settings=tables)
    assert imported == ["rope"]
    assert {each.name for each in found.network} >= {"wireguard", "websocket", "vxlan", "rope"}
    assert not found.reflectors
    assert not found.discovery
    assert not found.checks
    assert not [each for each in found.records if each.state == "left out"]
    with pytest.raises(ConfigError, match=r"plugins\.settings\.wireguard"):
        load_backends((), settings={"wireguard": {"nonsense": 1}})
