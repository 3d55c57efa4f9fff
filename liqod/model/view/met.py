"""How this cluster met a peer, by the requests that are kept while they are peered. Pure."""

from collections.abc import Iterable
from typing import Final

from liqod.model.view.request import Request

AGREED: Final = ("Accepted", "Done")
KUBECONFIG: Final = "kubeconfig"
"""Where no request is kept: whoever had a kubeconfig of the other cluster has peered them."""
UNKNOWN: Final = "-"


def met(peer: str, requests: Iterable[Request] | None) -> tuple[str, str]:
    """How a peer was met (``invitation``, ``discovery``, ``address``, ``policy``, ``request``,
    ``kubeconfig``), several with commas between them; and the words that both sides have shown.

    Args:
        peer: its id.
        requests: of both sides; None where they may not be read.
    """
    if requests is None:
        return UNKNOWN, ""
    found = [each for each in requests if each.cluster_id == peer and each.state in AGREED]
    ways = sorted({each.by for each in found if each.by})
    words = next((each.words for each in found if each.words), "")
    return ", ".join(ways) or KUBECONFIG, words
