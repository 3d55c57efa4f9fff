"""Writes the table of ``docs/background/security.md`` of what callers may take of the daemon.

Run ``python -m tests.testbed.accounttable`` after a change of :mod:`liqod.runtime.account`.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from liqod.runtime.account import (
    CALLERS,
    CLIENTS,
    KIB,
    KUBELET,
    KUBELET_STRANGERS,
    LOCAL,
    MIB,
    NODE_SHARES,
    PROBES,
    PROXY,
    REMOTE,
    SHARED,
    SHARES,
    STRANGERS,
    STREAMS,
    TENANTS,
    TUNNEL_SHARES,
    UNPROVED,
    WAITING,
    WEBHOOK,
    WEBHOOK_STRANGERS,
    PortShare,
    places_of,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "background" / "security.md"
FEW: Final = 1024
"""Files that a service may have where nobody says more."""
HEAD: Final = (
    "| port | who | counted by | places | of one "
    f"| of {FEW:,} files | files of one place | KiB of one place | MiB kept of requests "
    "| in metrics | test |"
)
_CROWDS: Final = "simulated/daemon/test_floods.py"
_SILENT: Final = f"{_CROWDS}::test_whatever_face_a_crowd_stands_at_the_others_and_itself_go_on"
_KNOWN: Final = f"{_CROWDS}::test_who_has_shown_something_has_so_many_places_too"
_TENANT: Final = f"{_CROWDS}::test_a_tenant_has_its_share_of_streams_and_everything_else_goes_on"
_JOINED: Final = (
    "netns/test_floods.py::test_crowds_at_port_443_and_at_the_proxy_take_their_part_alone"
)
TRIED: Final[dict[str, str]] = {
    PROBES: _SILENT,
    WEBHOOK_STRANGERS: _SILENT,
    WEBHOOK: _KNOWN,
    KUBELET_STRANGERS: _SILENT,
    KUBELET: _TENANT,
    UNPROVED: _SILENT,
    STRANGERS: _KNOWN,
    WAITING: _KNOWN,
    TENANTS: _TENANT,
    STREAMS: _TENANT,
    SHARED: _JOINED,
    PROXY: _JOINED,
    LOCAL: _SILENT,
    REMOTE: _SILENT,
    CLIENTS: _KNOWN,
    CALLERS: (
        "netns/test_websocket_strangers.py::test_a_crowd_that_calls_the_right_name_keeps_nobody_out"
    ),
}
"""By which test each face's bound is tried on a whole process."""
_TABLE: Final = re.compile(r"\| port \| who \| counted by .*\n(?:\|.*\n)+")


def render() -> str:
    """The table."""
    every = {**SHARES, **NODE_SHARES, CALLERS: TUNNEL_SHARES[CALLERS]}
    return "\n".join((HEAD, "| --- " * HEAD.count(" | ") + "| --- |", *_rows(every))) + "\n"


def _rows(shares: Mapping[str, PortShare]) -> Iterable[str]:
    shown = {*SHARES, *NODE_SHARES}
    for face, each in shares.items():
        few, of_few = places_of(each, FEW, 1 << 40)
        held = "" if each.buffered is None else f"{each.buffered // MIB}"
        cells = (
            *(each.face, each.who, each.source, f"{each.most:,}", f"{each.of_one:,}"),
            *(f"{few}, {of_few}", each.files, each.memory // KIB, held),
            *(
                f"`{face}`" if face in shown else "",
                f"`{TRIED[face].partition('::')[2]}`",
            ),
        )
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> None:
    """Write it into the page."""
    PAGE.write_text(_TABLE.sub(lambda _: render(), PAGE.read_text()))


if __name__ == "__main__":
    main()
