"""Certificates that have expired, at a real API server: what is seen, and what repairs it.

Rights that were deleted are tried on embedded clusters (`simulated/peering/test_taken_back.py`).
"""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, group

pytestmark = [pytest.mark.cluster, pytest.mark.handshake]

Json = dict[str, Any]
AUTHENTICATION = "authentication.liqo.io/v1beta1"
AT_ROME = "liqo-tenant-milan"
CONTROL_PLANE = (
    ("identities", "controlplane-milan", "spec"),
    ("renews", "controlplane-milan", "status"),
)
SLICE = (("identities", "resourceslice-milan", "spec"), ("resourceslices", "milan", "status"))


def remote_pods(milan: Member, shop: str) -> dict[str, str]:
    """The UIDs of what runs for rome."""
    return {name: one["metadata"]["uid"] for name, one in milan.pods(f"{shop}-rome").items()}


def expire(peered: Clusters, *places: tuple[str, str, str]) -> None:
    """Has certificates of rome's ended an hour ago, wherever rome keeps them."""
    ends = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    for plural, name, part in places:
        path = group(AUTHENTICATION, AT_ROME, plural, name)
        given = peered.rome.api.get(path)[part]["authParams"]
        old = peered.milan.plane.authority.resign(base64.b64decode(given["signedCRT"]), ends)
        signed = {"authParams": {"signedCRT": base64.b64encode(old).decode()}}
        place = path if part == "spec" else f"{path}/status"
        peered.rome.patch(place, {part: signed})
        if plural == "identities":
            # The daemon makes it anew of the identity; left, it would be used until then.
            secret = core(AT_ROME, "secrets", f"kubeconfig-{name}")
            peered.rome.api.call("DELETE", secret)


def problems(member: Member) -> list[str]:
    """Returns the problems that `liqod status` reports, each with its remedy."""
    seen = json.loads(member.liqod("status", "-o", "json").stdout)
    return [f"{one['what']} → {one['remedy']}" for one in seen["problems"]]


def shows(member: Member, *sentences: str) -> None:
    """Waits until `liqod status` says all of that."""
    said: list[str] = []

    def told() -> bool:
        said[:] = problems(member)
        return all(any(sentence in one for one in said) for sentence in sentences)

    try:
        wait_until(f"{sentences} in the status of {member.name}", told, 40, 0.5)
    except Exception:
        print(said)
        raise


def is_well(member: Member) -> None:
    """Waits until it complains of nothing."""
    wait_until(f"nothing wrong at {member.name}", lambda: not problems(member), 40, 0.5)


def test_a_slice_whose_certificate_expired_meanwhile_gets_another(
    peered: Clusters, shop: str
) -> None:
    rome, milan = peered.rome, peered.milan
    before = remote_pods(milan, shop)
    rome.crash()
    expire(peered, *SLICE)
    rome.daemon.start(60)
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "late"}})
    late = core(f"{shop}-rome", "configmaps", "late")
    wait_until("work to go on", lambda: milan.api.exists(late), 30)
    is_well(rome)
    assert remote_pods(milan, shop) == before


def test_a_cluster_whose_certificates_all_expired_peers_again(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    before = remote_pods(milan, shop)
    rome.crash()
    expire(peered, *CONTROL_PLANE, *SLICE)
    rome.daemon.start(60)
    shows(
        rome,
        "the certificate controlplane-milan has expired → `liqod peer milan` with the same options",
        "its API server refuses this cluster",
        "virtual node milan: ",
    )
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "late"}})
    written = rome.daemon.tail(10000).count("\n")
    peered.peer(rome, milan)
    late = core(f"{shop}-rome", "configmaps", "late")
    wait_until("work to go on", lambda: milan.api.exists(late), 30)
    is_well(rome)
    assert remote_pods(milan, shop) == before
    assert len(rome.ready_pods(shop)) == 2
    assert rome.daemon.tail(10000).count("\n") - written < 60, "the log is flooded"
