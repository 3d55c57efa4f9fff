"""The controllers of an embedded cluster, each a key at a time, all in one task."""

from liqod.simulator.controllers.definitions import Definitions
from liqod.simulator.controllers.garbage import Garbage
from liqod.simulator.controllers.manager import Controller, Manager
from liqod.simulator.controllers.namespaces import Namespaces
from liqod.simulator.controllers.signing import Signing

__all__ = ["Controller", "Definitions", "Garbage", "Manager", "Namespaces", "Signing"]
