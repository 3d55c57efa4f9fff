"""Labels of the largest places that are free behind a virtual node. Pure.

By these a scheduler leaves out a virtual node for a pod that is larger than what any node behind it
has free, however much all of them have together. A device, such as a GPU, is free on some machines
only, and a pod needs it together with CPU and memory. So there are labels of each device: how many
one machine has free, and the most CPU and memory that are free on a machine which has any.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from liqod.apimachinery import labels
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity, freecapacity
from liqod.model.peering.freecapacity import FreeCapacity

MOST_DEVICES: Final = 8
"""Devices that have labels, by their names."""
_MOST: Final = (1 << 63) - 1
"""The largest number that a scheduler reads in a label."""
_LONGEST: Final = 63
"""Characters of a label's name."""
_DEVICE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class SizeLabel(NamedTuple):
    """A label of the largest place.

    Attributes:
        label: its key.
        resource: of which it has the amount.
        unit: of that, in billionths.
        device: the one that the machine has; empty where it may have none.
    """

    label: str
    resource: str
    unit: int
    device: str = ""


ANY: Final = (
    SizeLabel(labels.LARGEST_CPU, "cpu", quantities.NANO // 1000),
    SizeLabel(labels.LARGEST_MEMORY, "memory", quantities.NANO),
)
"""The labels of a place on any machine."""
_PREFIXES: Final = (labels.LARGEST, labels.CPU_BESIDE, labels.MEMORY_BESIDE)


def is_size(key: str) -> bool:
    """True if the key of a label is one of these."""
    return key.startswith(_PREFIXES)


def beside(device: str) -> tuple[SizeLabel, ...]:
    """The labels of a device, the one of its number first; none where its name is too long."""
    name = device.replace("/", "_", 1)
    longest = max(len(prefix.partition("/")[2]) for prefix in _PREFIXES) + len(name)
    if longest > _LONGEST or _DEVICE.fullmatch(device) is None:
        return ()
    cpu, memory = ANY
    return (
        SizeLabel(f"{labels.LARGEST}{name}", device, quantities.NANO, device),
        SizeLabel(f"{labels.CPU_BESIDE}{name}", cpu.resource, cpu.unit, device),
        SizeLabel(f"{labels.MEMORY_BESIDE}{name}", memory.resource, memory.unit, device),
    )


def size_labels(found: FreeCapacity | None, left: Mapping[str, int] = {}) -> dict[str, str]:
    """The labels of what a provider tells.

    A pod may have a place only if it asks for less than each says: what is told is rounded down, so
    these are rounded up; that of what is left is too, so that few pods that are sent change any.
    None where it is not told, where nodes are added, and for one machine: of that, what is
    allocatable says it exactly.

    Args:
        found: what the provider tells.
        left: the most that one node has after pods that it does not count yet.
    """
    if found is None or found.autoscales or all(each.key for each in found.groups):
        return {}
    sizes = list(freecapacity.sizes(found))
    if any(each.resource not in quantities.largest(sizes) for each in ANY):
        return {}
    shown = _above(ANY, sizes, left)
    for device in _devices(found):
        having = [each for each in sizes if each.get(device, 0) > 0]
        shown |= _above(beside(device), having, left)
    return shown


def _devices(found: FreeCapacity) -> Iterable[str]:
    """Devices that are told, also those of which none is free."""
    told = {
        name for each in found.groups for amounts in (each.free, *each.largest) for name in amounts
    }
    return sorted(filter(capacity.is_device, told))[:MOST_DEVICES]


def _above(
    shown: Iterable[SizeLabel], sizes: Iterable[Amounts], left: Mapping[str, int]
) -> dict[str, str]:
    most, found = quantities.largest(sizes), {}
    for each in shown:
        amount = most.get(each.resource, 0)
        amount = min(amount, left.get(each.resource, amount))
        step = freecapacity.scale(amount)
        above = -(-(amount // step + 1) * step // each.unit)
        found[each.label] = str(min(above, _MOST))
    return found
