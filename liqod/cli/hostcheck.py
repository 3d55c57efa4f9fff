"""Finds the reasons why the daemon would not start on this host: ports of others, no kubeconfig."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from liqod.config import Config

_Kind = socket.SocketKind


def problems(config: Config) -> list[str]:
    """The problems, each as a sentence with what to do; none where it could start."""
    found = []
    kubeconfig = config.cluster.kubeconfig
    if kubeconfig and not os.access(kubeconfig, os.R_OK):
        why = "cannot be read by this user" if Path(kubeconfig).exists() else "does not exist"
        found.append(
            f"the kubeconfig {kubeconfig} {why}: see docs/how-to/systemd.md for how it is made"
        )
    for setting, host, port, kind in _ports(config):
        why = _hindrance(host, port, kind) if port else ""
        if why:
            found.append(f"port {port} {why}: set {setting} to another")
    return found


def machine_problem(config: Config) -> str:
    """Why `liqod node`, which does not run, could be no candidate here; empty where it could."""
    port = config.network.candidate_port
    why = _hindrance("", port, socket.SOCK_DGRAM) if config.network.candidates else ""
    return f"port {port} {why}: set network.candidate_port to another" if why else ""


def _ports(config: Config) -> Iterator[tuple[str, str, int, _Kind]]:
    """The ports without which there is no daemon, with their settings."""
    tcp = socket.SOCK_STREAM
    if config.webhook.enabled:
        yield "webhook.port", config.webhook.host, config.webhook.port, tcp
    yield "kubelet.port", config.kubelet.listen, config.kubelet.port, tcp
    if config.health.enabled:
        yield "health.port", config.health.host, config.health.port, tcp
    if config.inspector.enabled and config.inspector.host:
        yield "inspector.port", config.inspector.host, config.inspector.port, tcp


def _hindrance(host: str, port: int, kind: _Kind) -> str:
    """The reason why a port cannot be had; empty for none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as tried:
        if kind is socket.SOCK_STREAM:
            # As the daemon does: connections that have ended hold no port.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "is taken, by another program if this one does not run"
            if error.errno == errno.EACCES:
                return "is not for this user"
            return ""  # an address that is not there yet, or a name
    return ""
