"""How an advert is carried by a TXT record, in DNS and in mDNS alike. Pure.

The strings ``id=<cluster id>``, then ``a=<part>`` for each part of the advert in its order: a
string of such a record has 255 bytes at most (RFC 1035), and an advert several times that. Other
strings are ignored, so that there may be more of them one day.
"""

from collections.abc import Iterable

from liqod.plugins.providers import MOST_ADVERT

MOST_STRING = 255
"""Bytes of one string of a TXT record."""
MOST_STRINGS = 32
"""Strings that are looked at."""
_ID, _PART = b"id=", b"a="


def pack(cluster_id: str, advert: str) -> list[bytes]:
    """The strings of a TXT record."""
    step = MOST_STRING - len(_PART)
    data = advert.encode("ascii")
    parts = [_PART + data[at : at + step] for at in range(0, len(data), step)]
    return [_ID + cluster_id.encode("ascii"), *parts]


def unpack(strings: Iterable[bytes]) -> tuple[str, str]:
    """Cluster id and advert of a TXT record; empty where it has none, or one that cannot be."""
    cluster_id, parts = b"", []
    for _, each in zip(range(MOST_STRINGS), strings, strict=False):
        if each.startswith(_ID) and not cluster_id:
            cluster_id = each[len(_ID) :]
        elif each.startswith(_PART):
            parts.append(each[len(_PART) :])
    advert = b"".join(parts)
    if len(advert) > MOST_ADVERT or not advert.isascii() or not cluster_id.isascii():
        advert = b""
    return cluster_id.decode("ascii", "replace"), advert.decode("ascii", "replace")
