"""Credentials that change: files, tokens, and plugins in a process of their own."""

import base64
import json
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.errors import Unauthorized
from liqod.kube.credentials import source
from liqod.kube.credentials.credentials import Credentials, ExecPlugin, from_files, from_kubeconfig
from liqod.kube.credentials.source import (
    CHECK_EVERY,
    PLUGIN_PAUSE,
    CredentialSource,
    IssuedCredentials,
    run_plugin,
)
from tests.unit.kube.test_credentials import KEY, PEM, config

PLUGIN = ExecPlugin("aws", "{}", "")


def write(path: Path, value: Any) -> None:
    """Replace a file as editors and the kubelet do: another inode."""
    fresh = path.with_suffix(".new")
    fresh.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    fresh.replace(path)


async def test_a_changed_kubeconfig_is_read_again(autojump_clock, tmp_path, caplog):
    path = tmp_path / "config"
    write(path, config(user={"token": "one"}))
    it = CredentialSource(from_files((path,)))
    assert (await it.current()).token == "one"
    write(path, config(user={"token": "two"}))
    assert (await it.current()).token == "one"  # looked at a moment ago
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).token == "two"
    write(path, "{")
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).token == "two"
    assert "changed credentials are not used" in caplog.text
    write(path, config(user={"token": "three"}))
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).token == "three"


async def test_a_token_file_is_read_again(autojump_clock, tmp_path):
    token = tmp_path / "token"
    write(token, "one\n")
    it = CredentialSource(Credentials("https://x", token_file=str(token)))
    assert (await it.current()).token == "one"
    write(token, "two\n")
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).token == "two"
    token.unlink()
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).token == "two"


async def test_files_named_by_the_kubeconfig_count_too(autojump_clock, tmp_path):
    (tmp_path / "cert").write_bytes(PEM)
    (tmp_path / "key").write_bytes(KEY)
    path = tmp_path / "config"
    write(path, config(user={"client-certificate": "cert", "client-key": "key"}))
    it = CredentialSource(from_files((path,)))
    first = await it.current()
    write(tmp_path / "cert", PEM.decode() + PEM.decode())
    await trio.sleep(CHECK_EVERY)
    assert (await it.current()).client_cert == PEM + PEM
    assert first.client_cert == PEM


async def test_a_plugin_is_asked_once_and_again_before_the_end(autojump_clock):
    asked = 0

    async def ask(plugin: ExecPlugin) -> IssuedCredentials:
        nonlocal asked
        asked += 1
        await trio.sleep(1)
        return IssuedCredentials(
            token=f"t{asked}", expires=time.time() + (3600 if asked > 1 else 30)
        )

    it = CredentialSource(Credentials("https://x", exec=PLUGIN), ask)
    found: list[str | None] = []

    async def use() -> None:
        found.append((await it.current()).token)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(use)
    assert found == ["t1"] * 5
    assert (await it.current()).token == "t2"  # the first ends within the minute
    assert (await it.current()).token == "t2"
    assert asked == 2


async def test_refused_credentials_make_a_plugin_be_asked(autojump_clock):
    answers = [
        IssuedCredentials(token="old"),
        IssuedCredentials(token="new"),
        IssuedCredentials(token="new"),
    ]

    async def ask(plugin: ExecPlugin) -> IssuedCredentials:
        return answers.pop(0)

    it = CredentialSource(Credentials("https://x", exec=PLUGIN), ask)
    used = await it.current()
    assert await it.refused(used) is True
    assert await it.refused(used) is True  # another task had the old ones too: no need to ask
    assert (await it.current()).token == "new"
    assert await it.refused(await it.current()) is False
    assert not answers


async def test_refused_credentials_without_a_source_stay():
    it = CredentialSource(Credentials("https://x", token="t"))
    assert await it.refused(await it.current()) is False


async def test_a_plugin_that_fails_is_asked_once_by_many(autojump_clock):
    asked = 0

    async def ask(plugin: ExecPlugin) -> IssuedCredentials:
        nonlocal asked
        asked += 1
        await trio.sleep(1)
        raise Unauthorized("no smart card")

    it = CredentialSource(Credentials("https://x", exec=PLUGIN), ask)

    async def use() -> None:
        with pytest.raises(Unauthorized, match="no smart card"):
            await it.current()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(use)
    assert asked == 1
    await trio.sleep(PLUGIN_PAUSE)
    await use()
    assert asked == 2


async def test_what_is_still_valid_is_used_while_the_plugin_fails(autojump_clock):
    answers = [IssuedCredentials(token="t", expires=time.time() + 30)]

    async def ask(plugin: ExecPlugin) -> IssuedCredentials:
        if not answers:
            raise Unauthorized("no smart card")
        return answers.pop()

    it = CredentialSource(Credentials("https://x", exec=PLUGIN), ask)
    assert (await it.current()).token == "t"
    assert (await it.current()).token == "t"


async def test_a_plugin_gives_certificates(autojump_clock):
    async def ask(plugin: ExecPlugin) -> IssuedCredentials:
        return IssuedCredentials(client_cert=PEM.decode(), client_key=KEY.decode())

    it = CredentialSource(Credentials("https://x", exec=PLUGIN), ask)
    found = await it.current()
    assert (found.client_cert, found.client_key, found.token) == (PEM, KEY, None)


SCRIPT = """#!{python}
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
if "{mode}" == "fail":
    sys.exit("cannot log in: " + sys.argv[1])
if "{mode}" == "nonsense":
    print("hello")
    sys.exit(0)
print(json.dumps({{
    "apiVersion": info["apiVersion"], "kind": "ExecCredential",
    "status": {{"token": sys.argv[1] + os.environ["WHO"] + info["kind"],
                "expirationTimestamp": "2100-01-01T00:00:00Z"}},
}}))
"""


def with_plugin(tmp_path: Path, mode: str, **more: Any) -> Credentials:
    script = tmp_path / "plugin"
    script.write_text(SCRIPT.format(python=sys.executable, mode=mode))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "args": ["token-"],
        "env": [{"name": "WHO", "value": "me-"}],
        **more,
    }
    value = config(user={"exec": entry})
    return from_kubeconfig(yaml.safe_dump(value), base=tmp_path)


async def test_a_real_plugin(tmp_path):
    given = with_plugin(tmp_path, "good")
    assert given.exec is not None
    issued = await run_plugin(given.exec)
    assert issued.token == "token-me-ExecCredential"
    assert issued.expires == 4102444800


@pytest.mark.parametrize(
    ("mode", "message"), [("fail", "cannot log in: token-"), ("nonsense", "failed to decode")]
)
async def test_a_real_plugin_that_fails(tmp_path, mode, message):
    given = with_plugin(tmp_path, mode)
    assert given.exec is not None
    with pytest.raises(Unauthorized, match=message):
        await run_plugin(given.exec)


async def test_a_legacy_auth_provider(tmp_path):
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'none'})}.{part({'exp': 4102444800})}.x"
    provider = {"name": "oidc", "config": {"id-token": token, "client-id": "c"}}
    given = from_kubeconfig(yaml.safe_dump(config(user={"auth-provider": provider})), base=tmp_path)
    assert given.exec is not None
    assert given.exec.name == "oidc"
    assert (await run_plugin(given.exec)).token == token


async def test_a_plugin_that_is_not_there(tmp_path):
    given = with_plugin(tmp_path, "good", command="no-such-program")
    assert given.exec is not None
    with pytest.raises(Unauthorized, match="no-such-program"):
        await run_plugin(given.exec)


async def test_without_the_package_that_runs_plugins_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "kubernetes.py").write_text("raise ModuleNotFoundError(name=__name__)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    given = with_plugin(tmp_path, "good")
    assert given.exec is not None
    with pytest.raises(
        Unauthorized, match=r"need the Python package kubernetes, .* -m pip install"
    ):
        await run_plugin(given.exec)


async def test_a_plugin_that_hangs_is_ended(tmp_path, mock_clock):
    program = (
        "import os, time; open('new', 'w').write(str(os.getpid()));"
        " os.rename('new', 'pid'); time.sleep(600)"
    )
    given = with_plugin(tmp_path, "good", command=sys.executable, args=["-c", program])
    assert given.exec is not None

    async def pass_the_time() -> None:
        await _comes_true((tmp_path / "pid").exists)
        mock_clock.jump(source.PLUGIN_DEADLINE + 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_the_time)
        with pytest.raises(Unauthorized, match="took more than"):
            await run_plugin(given.exec)
    plugin = int((tmp_path / "pid").read_text())
    await _comes_true(lambda: " Z " in _stat(plugin))


async def _comes_true(what: Callable[[], bool]) -> None:
    """Wait for what another process does, which goes by no clock of the test's."""
    for _ in range(6000):
        if what():
            return
        await trio.to_thread.run_sync(time.sleep, 0.01)
    raise AssertionError("it did not come true")


def _stat(pid: int) -> str:
    """The kernel's status line of a process; that of a zombie if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return " Z "
