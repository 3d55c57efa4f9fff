"""What was written at a peer is believed until the watch shows it, and not for ever."""

from typing import Any, cast

import msgspec
import trio

from liqod.kube.kinds import CONFIG_MAPS
from liqod.kube.meta import Partial
from liqod.plugins.contracts import Watch
from liqod.reflection.observed import OWN_WRITE_SEEN, Observed

SOURCE = ("configmaps", "conf")
WRITTEN = {"metadata": {"name": "conf", "uid": "1", "resourceVersion": "7"}}


async def test_a_write_that_the_watch_never_shows_is_looked_at_again(autojump_clock):
    told: list[tuple[str, str]] = []
    observed = Observed(
        *(cast("Any", None), CONFIG_MAPS, Watch.METADATA, "shop-rome", (), ("rome", "milan")),
        lambda source, late: told.append(source),
    )
    # It was removed there before its answer came, and the watch has shown both by then.
    observed.wrote(SOURCE, msgspec.convert(WRITTEN, Partial))
    assert observed.sources == {SOURCE}
    observed.mend()
    assert told == []
    await trio.sleep(OWN_WRITE_SEEN + 1)
    observed.mend()
    assert told == [SOURCE]
    assert observed.sources == frozenset()
    assert observed.settled("conf") is None
    observed.mend()
    assert told == [SOURCE]
