"""A reflector's result is checked before it is carried out; a check names bad settings."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from liqod.cli.app import main
from liqod.plugins.contracts import (
    CONFIG_MAPS,
    NOTHING,
    PODS,
    Plan,
    Reflector,
    RemoteKind,
    Several,
    Watch,
    Write,
)
from liqod.plugins.diagnosis import Check
from liqod.plugins.providers import DiscoveryProvider, TunnelProvider
from liqod.plugins.validation import plan_problem, provided_problem
from simulator.suites.reflectors import stiff
from tests.unit.plugins import broken

GOOD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_a_plan_is_none():
    assert plan_problem(NOTHING) is None
    assert (
        plan_problem(Plan(remote=(GOOD,), local=(GOOD,), requeue_after=1, status={"a": 1})) is None
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (None, "it is NoneType, not a Plan"),
        (Plan(remote=[GOOD]), "remote is to be a tuple of dict"),  # type: ignore[arg-type]
        (Plan(remote=("a",)), "remote[0] is to be"),  # type: ignore[arg-type]
        (Plan(remote=({**GOOD, "metadata": {}},)), "remote[0] is to have an apiVersion"),
        (Plan(local=({**GOOD, "metadata": None},)), "local[0] is to have an apiVersion"),
        (Plan(status="lit"), "status is to be"),  # type: ignore[arg-type]
        (Plan(reasons=("NoPaint",)), "reasons[0] is to be Reason"),  # type: ignore[arg-type]
        (Plan(requeue_after=float("nan")), "requeue_after is to be a number"),
        (Plan(requeue_after=-1.0), "requeue_after is to be 0 seconds or more, and is -1"),
        (Plan(debounce=-0.5), "debounce is to be 0 seconds or more, and is -0.5"),
    ],
)
def test_what_is_no_plan_is_named_by_its_field(plan, said):
    found = plan_problem(plan)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[plugins.settings.manual]\nfile = 'x'", "plugins.settings.manual: "),
        ("[plugins.settings.manuel]\nfile = 'x'", "there is no plugin of that name"),
    ],
)
def test_settings_that_fit_no_plugin_fail_the_check(
    table: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "liqod.toml"
    path.write_text(table)
    assert main(["check", "--config", str(path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        (RemoteKind(kind=CONFIG_MAPS, follows=("data",)), "follows belongs to write=Write.ONCE"),
        (RemoteKind(kind=PODS, write=Write.ONCE, follows=("a[*]",)), "'a[*]' is no path"),
        (RemoteKind(kind=PODS, write=Write.ONCE, follows=("a..b",)), "'a..b' is no path"),
        (RemoteKind(kind=PODS, write=Write.ONCE, follows=("a[0].b",)), "'a[0].b' is no path"),
        (RemoteKind(kind=PODS, write=Write.ONCE, follows=("spec.a[*].b",)), None),
    ],
)
def test_what_follows_is_named_by_paths(remote: RemoteKind, said: str | None) -> None:
    reflector = Reflector(
        name="notes", kind=CONFIG_MAPS, outgoing=lambda source, view: NOTHING, remote=(remote,)
    )
    found = provided_problem(reflector)
    assert found is None if said is None else said in (found or "")


def test_the_suite_knows_paths_that_lead_to_nothing() -> None:
    remote = RemoteKind(kind=PODS, write=Write.ONCE, follows=("spec.containers[*].imagee",))
    reflector = Reflector(
        name="notes", kind=PODS, outgoing=lambda source, view: NOTHING, remote=(remote,)
    )
    containers = [{"name": "a", "image": "b", "imagee": None}]
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    assert stiff(reflector, [pod]) == {"Pod"}
    containers[0]["imagee"] = "b"
    assert stiff(reflector, [pod]) == set()
    assert stiff(reflector, []) == set()


WHOLE: dict[str, Any] = {
    "Reflector": Reflector(
        name="notes",
        kind=CONFIG_MAPS,
        outgoing=lambda source, view: NOTHING,
        incoming=lambda source, remote, view: NOTHING,
        remote=(RemoteKind(kind=CONFIG_MAPS, watch=Watch.FULL),),
        several=Several.MERGED,
        combine=lambda source, statuses: {},
    ),
    "Check": Check(name="etcd", title="etcd", scope="peer", order=1, look=lambda facts: None),
    "DiscoveryProvider": DiscoveryProvider(name="hosts", build=lambda settings, services: None),  # type: ignore[arg-type,return-value]
    "TunnelProvider": TunnelProvider(
        name="rope",
        build=lambda settings, services, place: None,  # type: ignore[arg-type,return-value]
        encrypted=True,
        overhead=80,
    ),
}


def with_function(struct: str, field: str, function: Any) -> Any:
    """A description of which one function is another."""
    if struct == "RemoteKind":
        remote = RemoteKind(kind=CONFIG_MAPS, watch=Watch.FULL, **{field: function})
        return msgspec.structs.replace(WHOLE["Reflector"], remote=(remote,))
    return msgspec.structs.replace(WHOLE[struct], **{field: function})


@pytest.mark.parametrize(("struct", "field", "count", "awaited"), list(broken.functions()))
def test_a_function_that_cannot_be_called_as_it_will_be_is_named(
    struct: str, field: str, count: int, awaited: bool
) -> None:
    async def waits(*values: object) -> None:
        """Take whatever comes."""

    def takes(*values: object) -> None:
        """Take whatever comes."""

    def wants_more(*values: object, something: str) -> None:
        """Take more than is given."""

    assert provided_problem(with_function(struct, field, waits if awaited else takes)) is None
    said = provided_problem(with_function(struct, field, wants_more)) or ""
    assert f"{field} has to take {count} values" in said
    if not awaited:
        said = provided_problem(with_function(struct, field, waits)) or ""
        assert f"{field} is asynchronous" in said


@pytest.mark.parametrize("title", ["", "a\nb", "\x1b[31mred"])
def test_a_title_that_does_not_show_itself_is_named(title: str) -> None:
    check = msgspec.structs.replace(WHOLE["Check"], title=title)
    assert provided_problem(check) == "title is to be a line of text that shows itself"
