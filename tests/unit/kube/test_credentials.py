"""Kubeconfigs and service accounts: what is read, and how clearly nonsense is refused."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.errors import ConfigError
from liqod.kube.credentials import credentials
from liqod.kube.credentials.credentials import (
    Credentials,
    find,
    from_files,
    from_kubeconfig,
    in_cluster,
)

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\nsecret-key\n-----END PRIVATE KEY-----\n"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
        **more,
    }


def read(value: Any, context: str | None = None, base: Path | None = None) -> Credentials:
    return from_kubeconfig(yaml.safe_dump(value), context, base)


def test_everything_inline():
    found = read(
        config(
            {"certificate-authority-data": b64(PEM), "tls-server-name": "api.internal"},
            {"client-certificate-data": b64(PEM), "client-key-data": b64(KEY), "token": "t"},
        )
    )
    assert found == Credentials(
        server="https://k:6443",
        ca=PEM,
        client_cert=PEM,
        client_key=KEY,
        token="t",
        namespace="n",
        server_name="api.internal",
    )


def test_json_and_bytes_and_defaults():
    found = from_kubeconfig(
        b'{"clusters":[{"name":"k","cluster":{"server":"http://[::1]:8080"}}],'
        b'"contexts":[{"name":"x","context":{"cluster":"k"}}]}',
        "x",
    )
    assert found == Credentials(server="http://[::1]:8080")


def test_base64_may_be_folded():
    text = b64(PEM)
    found = read(config({"certificate-authority-data": f"{text[:20]}\n {text[20:]}\n"}))
    assert found.ca == PEM


def test_files_are_relative_to_the_kubeconfig(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ca.pem").write_bytes(PEM)
    (tmp_path / "cert.pem").write_bytes(PEM)
    (tmp_path / "key.pem").write_bytes(KEY)
    (tmp_path / "token").write_text("t")
    path = tmp_path / "config"
    user = {
        "client-certificate": str(tmp_path / "cert.pem"),
        "client-key": "key.pem",
        "tokenFile": "token",
    }
    path.write_text(yaml.safe_dump(config({"certificate-authority": "sub/ca.pem"}, user)))
    found = from_files((path,))
    assert (found.ca, found.client_cert, found.client_key) == (PEM, PEM, KEY)
    assert found.token_file == str(tmp_path / "token")
    assert found.origin is not None
    assert set(found.origin.files) == {
        str(path),
        str(tmp_path / "sub" / "ca.pem"),
        str(tmp_path / "cert.pem"),
        str(tmp_path / "key.pem"),
        str(tmp_path / "token"),
    }


def test_several_files_are_merged_and_the_first_counts(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    first = config({"server": "https://first"})
    first["current-context"] = ""
    one.write_text(yaml.safe_dump(first))
    second = config({"server": "https://second"})
    second["contexts"].append({"name": "d", "context": {"cluster": "k2", "user": "u"}})
    second["clusters"].append({"name": "k2", "cluster": {"server": "https://other"}})
    two.write_text(yaml.safe_dump(second))
    assert from_files((one, two)).server == "https://first"
    assert from_files((one, two), "d").server == "https://other"


def data(**user: Any) -> dict[str, Any]:
    return config(user=user)


NONSENSE: list[tuple[Any, str]] = [
    ("{", "bad YAML: .* \\(line 1\\)"),
    ("a: [1\nb: 2", "bad YAML"),
    ("\x00", "bad YAML"),
    ("just text", "it is no mapping"),
    ("- 1", "it is no mapping"),
    ("", "it is no mapping"),
    ("kind: Pod", "its kind is 'Pod'"),
    ("clusters: 3", r"Expected `array \| null`, got `int` - at `\$.clusters`"),
    ("{}", "no current-context; choose one of: none"),
    ({**config(), "current-context": "gone"}, "no context 'gone'; there are: c"),
    (config(clusters=[]), "context 'c' names the cluster 'k', which is not there"),
    (config(users=[]), "context 'c' names the user 'u', which is not there"),
    (config({"server": ""}), "must be an https:// URL, not ''"),
    (config({"server": "ftp://x"}), "must be an https:// URL"),
    (config({"server": "https://u:p@x"}), "plain URL"),
    (config({"server": "https://x:99999"}), "server is not a URL"),
    (config({"server": "https://[::1"}), "server is not a URL"),
    (config({"server": "https://x/\r\nHost: y"}), "server must be an ASCII URL"),
    (config({"server": "https://a..b"}), "'a..b' is no host's name"),
    (config({"server": f"https://{64 * 'x'}.example"}), "is no host's name"),
    (config({"tls-server-name": ".example"}), "tls-server-name '.example' is no host's name"),
    (config({"server": 3}), r"cluster 'k': Expected `str`, got `int` - at `\$.server`"),
    (config({"certificate-authority-data": "%%%"}), "certificate-authority-data is not base64"),
    (config({"certificate-authority-data": b64(b"x")}), "certificate-authority holds no PEM"),
    (config({"proxy-url": "socks5://p:1080"}), "socks5 proxies are not supported"),
    (config({"proxy-url": "http://u:hunter2@p:0"}), "proxy-url must be http://HOST:PORT"),
    (config({"proxy-url": "http://p/path"}), "proxy-url must be http://HOST:PORT"),
    (config({"proxy-url": "http://u:hunter2@p:x"}), "proxy-url is not a URL"),
    (
        config({"insecure-skip-tls-verify": True, "certificate-authority-data": b64(PEM)}),
        "exclude each other",
    ),
    (data(**{"client-certificate-data": b64(PEM)}), "come only together"),
    (data(**{"client-key-data": b64(KEY)}), "come only together"),
    (data(**{"client-key-data": "secret!"}), "client-key-data is not base64"),
    (data(username="admin", password="x"), "user name and password"),
    (data(**{"as": "root"}), "impersonation"),
    (data(token=["x"]), r"user 'u': Expected `str \| null`, got `array` - at `\$.token`"),
    (data(**{"client-certificate": "/etc/shadow"}), "names a file, which is allowed in files"),
    (data(tokenFile="/etc/shadow"), "names a file"),
    (data(exec={"command": "rm"}), "runs a program"),
    (data(**{"auth-provider": {"name": "gcp"}}), "runs a program"),
]


@pytest.mark.parametrize(("value", "message"), NONSENSE)
def test_nonsense_is_refused_with_a_reason(value, message):
    with pytest.raises(ConfigError, match=message) as caught:
        from_kubeconfig(value if isinstance(value, str) else yaml.safe_dump(value))
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_or_too_large(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the kubeconfig .*: No such file"):
        from_files((tmp_path / "none",))
    with pytest.raises(ConfigError, match="Is a directory"):
        from_files((tmp_path,))
    (tmp_path / "big").write_bytes(b"#" * (5 << 20))
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        from_files((tmp_path / "big",))
    (tmp_path / "bad").write_text("{")
    with pytest.raises(ConfigError, match=r"bad: not a kubeconfig: bad YAML"):
        from_files((tmp_path / "bad",))
    (tmp_path / "points").write_text(yaml.safe_dump(data(tokenFile="none")))
    with pytest.raises(ConfigError, match=r"points: .*tokenFile .*none: No such file"):
        from_files((tmp_path / "points",))


def test_an_exec_plugin_in_a_file(tmp_path):
    found = read(data(exec={"command": "aws", "args": ["x"]}), base=tmp_path)
    assert found.exec is not None
    assert found.exec.name == "aws"
    document = yaml.safe_load(found.exec.document)
    assert document["current-context"] == "c"
    assert document["users"][0]["user"]["exec"]["args"] == ["x"]
    with pytest.raises(ConfigError, match="exec must be a mapping"):
        read(data(exec="aws"), base=tmp_path)


def test_in_cluster(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="not in a cluster"):
        in_cluster({}, tmp_path)
    with pytest.raises(ConfigError, match="service account's token"):
        in_cluster(environ, tmp_path)
    (tmp_path / "token").write_text("t\n")
    (tmp_path / "ca.crt").write_bytes(PEM)
    (tmp_path / "namespace").write_text("liqo\n")
    found = in_cluster(environ, tmp_path)
    assert (found.server, found.ca, found.namespace) == ("https://[fd00::1]:443", PEM, "liqo")
    assert found.token_file == str(tmp_path / "token")


def test_where_kubeconfigs_are_looked_for(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert find(None, home) == ()
    (tmp_path / ".kube").mkdir()
    default = tmp_path / ".kube" / "config"
    default.touch()
    assert find(None, home) == (default,)
    both = {**home, "KUBECONFIG": f"{default}{os.pathsep}{tmp_path / 'none'}{os.pathsep}"}
    assert find(None, both) == (default,)
    assert find(None, {"KUBECONFIG": "/none"}) == (Path("/none"),)
    assert find(tmp_path, both) == (tmp_path,)


async def test_load(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="no kubeconfig found: name one with --kubeconfig"):
        await credentials.load()
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config()))
    assert (await credentials.load(path)).server == "https://k:6443"
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert (await credentials.load(None, "c")).namespace == "n"


@pytest.mark.parametrize(
    "cluster", [{"server": "http://k:6443"}, {"insecure-skip-tls-verify": True}]
)
def test_another_side_whose_server_proves_nothing_is_refused(tmp_path, cluster):
    path = tmp_path / "given"
    path.write_text(yaml.safe_dump(config(cluster, {"token": "t"})))
    with pytest.raises(ConfigError, match="allowed in files only"):
        credentials.from_other_side(path)
    assert from_files((path,)).token == "t"
