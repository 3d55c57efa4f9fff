"""Looks through a plugin's code for what no wall holds.

A task that is begun by ``trio.lowlevel.spawn_system_task`` belongs to Trio itself: its exception
ends the daemon. So a plugin that names that function is not loaded. It is looked for in the code of
the plugin's package as far as it has been imported: that prevents use by mistake, and
not hidden use. A plugin has all the rights of the daemon anyway.
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

FORBIDDEN: Final = "spawn_system_task"


def system_task(plugin: Any) -> str | None:
    """Where a plugin begins a system task, in a clause; None where it does not.

    Args:
        plugin: a module, or an object that one has.
    """
    name = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    module = sys.modules.get(name)
    package = getattr(module, "__package__", None) or name
    for each in sorted(sys.modules):
        if each in (name, package) or each.startswith(f"{package}."):
            for code in _codes(each):
                if FORBIDDEN in code.co_names:
                    place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
                    return f"{code.co_qualname} ({place}) uses trio.lowlevel.{FORBIDDEN}"
    return None


def _codes(module: str) -> Iterator[CodeType]:
    """The code of a module, and all that is inside it."""
    try:
        spec = find_spec(module)
        reads = getattr(spec.loader, "get_code", None) if spec is not None else None
        code = reads(module) if reads is not None else None
    except (ImportError, OSError, ValueError):  # made by hand, or not to be had any more
        return
    waiting = [code] if isinstance(code, CodeType) else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
