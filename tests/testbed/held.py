"""The objects that another one keeps alive: what "nothing is kept" means."""

import gc
from collections import deque
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

PASSED: tuple[type, ...] = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""Not looked into: they lead to everything that there is."""


def held(root: object, kind: type[T]) -> list[T]:
    """All objects of a type that ``root`` holds, however deep, as the garbage collector sees it.

    An object that is held twice counts once.
    """
    seen, found = {id(root)}, list[T]()
    waiting = deque[Any]([root])
    while waiting:
        for each in gc.get_referents(waiting.popleft()):
            if id(each) in seen or isinstance(each, PASSED):
                continue
            seen.add(id(each))
            waiting.append(each)
            if isinstance(each, kind):
                found.append(each)
    return found
