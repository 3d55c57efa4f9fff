"""What was written at a peer is believed until the watch shows it, and not for ever."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import trio

from liqod.kube.kinds import CONFIG_MAPS
from liqod.kube.meta import Partial
from liqod.plugins.contracts import Watch
from liqod.plugins.reflectors.configmaps import REFLECTOR
from liqod.reflection.remotecache import OWN_WRITE_SEEN, RemoteCache

SOURCE = ("configmaps", "conf")
WRITTEN = {"metadata": {"name": "conf", "uid": "1", "resourceVersion": "7"}}


async def test_a_write_that_the_watch_never_shows_is_looked_at_again(autojump_clock):
    told: list[tuple[str, str]] = []
    worker: Any = SimpleNamespace(reflector=REFLECTOR, look=lambda key, after: told.append(key))
    cache = RemoteCache(
        cast("Any", None),
        CONFIG_MAPS,
        Watch.METADATA,
        ("shop", "shop-rome"),
        {REFLECTOR.name: worker},
        ("rome", "milan"),
    )
    # It was removed there before its answer came, and the watch has shown both by then.
    cache.wrote(SOURCE, msgspec.convert(WRITTEN, Partial))
    assert cache.sources == {SOURCE}
    cache.mend()
    assert told == []
    await trio.sleep(OWN_WRITE_SEEN + 1)
    cache.mend()
    assert told == [("shop", "conf")]
    assert cache.sources == frozenset()
    assert cache.settled("conf") is None
    cache.mend()
    assert told == [("shop", "conf")]
