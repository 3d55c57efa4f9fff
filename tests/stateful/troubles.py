"""Faults between programs: servers, networks, clocks, and the daemons themselves."""

from dataclasses import dataclass

import msgspec
import trio

from simulator.faults import Fault
from tests.stateful.audit import Broken, Write, seen
from tests.stateful.clock import Countdown
from tests.stateful.cures import lift, quiet
from tests.stateful.steps import Step
from tests.stateful.world import CONSUMER, PROVIDERS, World

STORM = 60.0
"""Seconds; pods are not driven from a node that is away for no longer."""
STORMS = ("down", "frozen", "failing", "busy", "garbled", "cut", "parted")
MOVING = ("web-", "stray-")
"""Pods of Deployments."""
BUMP = 1_000_000
"""Number that a restore adds to the revision, as etcd's manual asks for."""


@dataclass(frozen=True)
class Down(Step):
    """An API server is stopped: connections are cut and new ones refused."""

    at: str

    async def act(self, world: World) -> None:
        await world[self.at].refuse()


@dataclass(frozen=True)
class Up(Step):
    """It is started again."""

    at: str

    async def act(self, world: World) -> None:
        await world[self.at].answer(world.nursery)


@dataclass(frozen=True)
class Freeze(Step):
    """An API server accepts connections and answers nothing."""

    at: str

    async def act(self, world: World) -> None:
        world[self.at].cluster.faults.freeze()


@dataclass(frozen=True)
class Thaw(Step):
    """It goes on where it was."""

    at: str

    async def act(self, world: World) -> None:
        world[self.at].cluster.faults.thaw()


@dataclass(frozen=True)
class Answer(Step):
    """An API server answers so many requests of a verb with that status."""

    at: str
    verb: str
    status: int
    times: int

    async def act(self, world: World) -> None:
        fault = Fault(verb=self.verb, status=self.status, times=self.times)
        world[self.at].cluster.faults.add(fault)


@dataclass(frozen=True)
class Lose(Step):
    """So many requests of a verb are done, and the connection is closed instead of an answer."""

    at: str
    verb: str
    times: int

    async def act(self, world: World) -> None:
        world[self.at].mischief.lose[self.verb] = self.times


@dataclass(frozen=True)
class Garble(Step):
    """So many answers to requests of a verb are not what was asked for."""

    at: str
    verb: str
    times: int

    async def act(self, world: World) -> None:
        world[self.at].mischief.garble[self.verb] = self.times


@dataclass(frozen=True)
class CutWatches(Step):
    """Every watch breaks off."""

    at: str

    async def act(self, world: World) -> None:
        world[self.at].cluster.faults.cut_watches()


@dataclass(frozen=True)
class Expire(Step):
    """Every watch breaks off, and so many new ones are answered that their version is too old."""

    at: str
    times: int

    async def act(self, world: World) -> None:
        faults = world[self.at].cluster.faults
        faults.add(Fault(verb="watch", expire=True, times=self.times))
        faults.cut_watches()


@dataclass(frozen=True)
class Part(Step):
    """Nothing passes between the consumer's daemon and a provider."""

    provider: str

    async def act(self, world: World) -> None:
        world.network.part(CONSUMER, f"{self.provider}.test")


@dataclass(frozen=True)
class Join(Step):
    """They reach each other again."""

    provider: str

    async def act(self, world: World) -> None:
        world.network.join(CONSUMER, f"{self.provider}.test")


@dataclass(frozen=True)
class Kill(Step):
    """A daemon, of two the one that leads, is killed after so many turns of tasks."""

    at: str
    turns: int

    async def act(self, world: World) -> None:
        died = trio.Event()
        site = world[self.at]

        def kill() -> None:
            site.kill_one()
            died.set()

        countdown = Countdown(self.turns, kill)
        trio.lowlevel.add_instrument(countdown)
        with trio.move_on_after(5.0):
            await died.wait()
        trio.lowlevel.remove_instrument(countdown)
        if not died.is_set():
            site.kill_one()


@dataclass(frozen=True)
class Start(Step):
    """A daemon is started, if it does not run."""

    at: str

    async def act(self, world: World) -> None:
        await world[self.at].start(world.nursery)


@dataclass(frozen=True)
class Save(Step):
    """A backup of a provider is made."""

    provider: str

    async def act(self, world: World) -> None:
        world.memory[self.provider] = world[self.provider].cluster.save()


@dataclass(frozen=True)
class Restore(Step):
    """The provider is what it was when the last backup was made (or at the beginning)."""

    provider: str

    async def act(self, world: World) -> None:
        site = world[self.provider]
        saved = world.memory.get(self.provider) or world.begun[self.provider]
        await site.refuse()
        version = site.cluster.registry.storage.version + BUMP
        await world.begin(self.provider, msgspec.structs.replace(saved, version=version))


@dataclass(frozen=True)
class Jump(Step):
    """The wall clocks jump, forwards or backwards."""

    seconds: float

    async def act(self, world: World) -> None:
        world.wall.start += self.seconds


@dataclass(frozen=True)
class Storm(Step):
    """A minute of trouble at one provider, while all else rests: nobody else's objects change."""

    provider: str
    kind: str

    async def do(self, world: World) -> None:
        await quiet(world)
        before = len(world.audit.writes)
        await self._break(world)
        await trio.sleep(STORM)
        lift(world)
        await world[self.provider].answer(world.nursery)
        other = next(each for each in PROVIDERS if each != self.provider)
        hit = [write for write in world.audit.writes[before:] if _concerns(write, other)]
        if hit:
            raise Broken(f"trouble at {self.provider} changed {other}: {hit[0]}")

    async def _break(self, world: World) -> None:
        site = world[self.provider]
        faults = site.cluster.faults
        match self.kind:
            case "down":
                await site.refuse()
            case "frozen":
                faults.freeze()
            case "failing":
                faults.add(Fault(status=500))
                faults.cut_watches()
            case "busy":
                faults.add(Fault(status=429, retry_after=1))
                faults.cut_watches()
            case "garbled":
                site.mischief.garble |= {"get": 1000, "watch": 1000, "create": 1000, "patch": 1000}
                faults.cut_watches()
            case "cut":
                faults.add(Fault(verb="watch", cut=1))
                faults.cut_watches()
            case _:
                world.network.part(CONSUMER, f"{self.provider}.test")


def _concerns(write: Write, provider: str) -> bool:
    """True if a write is at a provider, or to its objects here; Deployments move freely."""
    last = write.change.last
    if write.cluster != CONSUMER:
        return write.cluster == provider and not last.name.startswith(MOVING)
    if write.resource == "pods":
        return seen(last).spec.node_name == provider and not last.name.startswith(MOVING)
    return last.namespace == f"liqo-tenant-{provider}" or last.name == provider
