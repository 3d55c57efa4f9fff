"""A consumer's bounds on objects, divided among its namespaces."""

from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects.quantities import NANO, Amounts, parse
from liqod.provider.slices.quotadivision import (
    NamespaceQuota,
    divide,
    first_amount,
    namespace_quota,
    quota_changes,
)
from liqod.provider.slices.sharedquotas import ConsumerQuotas

NODE_PORTS = "services.nodeports"
STORAGE = "requests.storage"
TOTALS = st.integers(0, 60)
USED = st.dictionaries(
    st.sampled_from([f"n{number}" for number in range(12)]), st.integers(0, 30), min_size=1
)
TURNS = st.integers(0, 100)
WHOLE = st.booleans()


@given(TOTALS, USED, TURNS, WHOLE)
def test_all_is_divided_and_nobody_loses_what_he_uses(total, used, turn, whole):
    found = divide(total, used, turn, whole=whole)
    assert found.keys() == used.keys()
    assert sum(found.values()) == max(total, sum(used.values()))
    assert all(found[name] >= used[name] for name in used)


@given(TOTALS, USED, TURNS, st.randoms())
def test_the_order_in_which_namespaces_are_known_does_not_matter(total, used, turn, random):
    mixed = list(used.items())
    random.shuffle(mixed)
    assert divide(total, dict(mixed), turn) == divide(total, used, turn)


@given(TOTALS, USED, WHOLE)
def test_every_namespace_has_its_turn_while_any_is_free(total, used, whole):
    if sum(used.values()) >= total:
        return
    turns = [divide(total, used, turn, whole=whole) for turn in range(4 * len(used))]
    for name in used:
        assert any(each[name] > used[name] for each in turns), name


@given(TOTALS, USED, st.integers(1, 7))
def test_shares_are_of_units(total, used, unit):
    found = divide(total, used, 0, unit=unit)
    assert all((found[name] - used[name]) % unit == 0 for name in used)
    assert sum(found.values()) <= max(total, sum(used.values()))


def test_who_uses_most_gets_most_of_what_is_free():
    used = {f"n{number}": 0 for number in range(100)} | {"busy": 100}
    found = divide(2000, used)
    assert found["busy"] >= 1050
    assert min(found.values()) >= 9


def test_one_large_object_finds_room_in_its_namespaces_turn():
    most = [max(divide(100, dict.fromkeys("abcde", 0), t, whole=True).values()) for t in range(5)]
    assert min(most) >= 60
    assert divide(100, {"a": 0}, whole=True) == {"a": 100}


def test_nobody_has_shares_where_there_is_nobody():
    assert divide(20, {}) == {}


class World:
    """Namespaces of a consumer, a quota controller that lags behind, and who uses all he can."""

    def __init__(self, key: str, total: str, names: list[str]) -> None:
        self.key, self.total, self.unit = (
            key,
            parse(total),
            NANO if key != STORAGE else parse("1Gi"),
        )
        self.spec = dict.fromkeys(names, 0)
        self.admitted = dict.fromkeys(names, 0)
        self.used = dict.fromkeys(names, 0)

    def quotas(self) -> dict[str, NamespaceQuota]:
        def one(amount: int) -> Amounts:
            return {self.key: amount}

        return {
            name: namespace_quota(one(hard), one(self.admitted[name]), one(self.used[name]), {})
            for name, hard in self.spec.items()
        }

    def move(self, turn: int = 0) -> int:
        """The number of quotas that were written."""
        found = quota_changes({self.key: self.total}, self.quotas(), turn).hard
        for name, hard in found.items():
            self.spec[name] = hard[self.key]
        return len(found)

    def use(self, name: str, number: int = 1) -> int:
        """How many of so many new objects the API server admits."""
        room = max(0, self.admitted[name] - self.used[name]) // self.unit
        self.used[name] += min(room, number) * self.unit
        return min(room, number)

    def admit(self, *names: str) -> None:
        for name in names or self.spec:
            self.admitted[name] = self.spec[name]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["use", "end", "admit", "move", "turn"]),
        st.integers(0, 4),
        st.integers(1, 30),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 40))
def test_no_moment_has_more_than_the_total(steps, first):
    world = World(NODE_PORTS, "20", [f"n{number}" for number in range(5)])
    world.spec["n0"] = world.admitted["n0"] = min(first, 20) * NANO
    turn = 0
    for what, who, number in steps:
        name = f"n{who}"
        if what == "use":
            world.use(name, number)
        elif what == "end":
            world.used[name] = max(0, world.used[name] - number * NANO)
        elif what == "admit":
            world.admit(name)
        else:
            turn += what == "turn"
            world.move(turn)
        assert sum(world.used.values()) <= 20 * NANO
        assert sum(each.held[NODE_PORTS] for each in world.quotas().values()) <= 20 * NANO


def test_what_an_older_version_wrote_is_taken_over():
    world = World(NODE_PORTS, "20", ["a", "b", "c"])
    world.spec = dict.fromkeys(world.spec, 20 * NANO)
    world.admit()
    world.used["a"] = 12 * NANO
    for _ in range(3):
        world.move()
        world.admit()
    assert sum(world.spec.values()) == 20 * NANO
    assert world.spec["a"] >= 12 * NANO


def test_what_is_used_beyond_the_total_stays_and_grows_no_more():
    world = World(NODE_PORTS, "20", ["a", "b"])
    world.spec = dict.fromkeys(world.spec, 20 * NANO)
    world.used = {"a": 15 * NANO, "b": 11 * NANO}
    world.admit()
    world.move()
    assert world.spec == world.used
    world.admit()
    assert world.use("a") == world.use("b") == 0


def test_one_busy_namespace_among_many_gets_nearly_all():
    world = World("count/secrets", "2000", [f"n{number:02}" for number in range(100)])
    world.spec["n00"] = world.admitted["n00"] = 2000 * NANO
    for _ in range(40):
        world.move()
        world.admit()
        world.use("n77", 2000)
    assert world.used["n77"] >= 1990 * NANO


def test_a_namespace_that_goes_frees_its_share():
    world = World(NODE_PORTS, "20", ["a", "b"])
    for each in ("a", "b"):
        world.spec[each] = world.used[each] = 10 * NANO
    world.admit()
    assert world.move() == 0
    for part in (world.spec, world.used, world.admitted):
        del part["b"]
    world.move()
    assert world.spec == {"a": 20 * NANO}


def test_nothing_is_written_while_nothing_changes():
    world = World("count/secrets", "2000", [f"n{number}" for number in range(7)])
    for _ in range(5):
        world.move()
        world.admit()
    assert [world.move(turn) for turn in range(10)] == [0] * 10
    world.used["n3"] = 20 * NANO
    assert world.move() == 0, "there is room in it yet"


def test_a_lowered_share_is_free_once_it_is_admitted_no_more():
    world = World(NODE_PORTS, "20", ["a", "b"])
    world.spec["a"] = world.admitted["a"] = 20 * NANO
    assert world.move() == 1
    assert (world.spec["a"], world.spec["b"]) == (10 * NANO, 0)
    assert world.move() == 0
    world.admit("a")
    assert world.move() == 1
    assert world.spec["b"] == 10 * NANO


def test_only_what_is_too_little_for_all_goes_round():
    world = World(NODE_PORTS, "20", [f"n{number}" for number in range(30)])
    assert quota_changes({NODE_PORTS: world.total}, world.quotas()).again
    few = World(NODE_PORTS, "20", ["a", "b"])
    assert not quota_changes({NODE_PORTS: few.total}, few.quotas()).again


def test_the_first_share_is_of_what_nobody_has():
    one = {"a": namespace_quota({NODE_PORTS: 20 * NANO}, {}, {}, {})}
    assert first_amount(NODE_PORTS, 20 * NANO, {}) == 20 * NANO
    assert first_amount(NODE_PORTS, 20 * NANO, one) == 0
    some = {"a": namespace_quota({NODE_PORTS: 6 * NANO}, {}, {}, {})}
    assert first_amount(NODE_PORTS, 20 * NANO, some) == 10 * NANO
    many = {f"n{number}": NamespaceQuota() for number in range(11)}
    assert first_amount(NODE_PORTS, 20 * NANO, many) == NANO, "no fractions of an object"


def test_what_was_written_counts_before_it_is_seen():
    known = ConsumerQuotas(lambda: {NODE_PORTS: "20"})
    assert known.within("a", {}, {NODE_PORTS: "20"}) == {NODE_PORTS: "20"}
    assert known.within("b", {}, {NODE_PORTS: "20"}) == {NODE_PORTS: "0"}
    assert known.doubtful == ["a", "b"], "nothing says yet that it was written"
    known.confirm_write("a", ObjectMeta(resource_version="7"))
    assert known.doubtful == ["b"]
    known.update("a", b'{"metadata":{"resourceVersion":"6"},"spec":{"hard":{}}}')
    assert known.quotas["a"].held == {NODE_PORTS: 20 * NANO}
    known.update(
        "a", b'{"metadata":{"resourceVersion":"8"},"spec":{"hard":{"services.nodeports":"3"}}}'
    )
    assert known.quotas["a"].hard == {NODE_PORTS: 3 * NANO}
    known.settle("b", None)
    assert known.quotas.keys() == {"a"}
