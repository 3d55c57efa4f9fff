"""A metric of ``/metrics``: its name, its meaning, and how its samples are read."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from liqod.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector

Labels = tuple[str, ...]
Sample = tuple[Labels, float | Histogram]


class Family(NamedTuple):
    """One metric: its name without a counter's ``_total``, its kind, labels and meaning."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "unknown"]
    labels: Labels
    help: str
    read: Callable[["Inspector"], Iterable[Sample]]

    @property
    def sample(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == "counter" else self.name
