"""What a daemon says of candidates is checked before a socket or a tunnel is given any of it."""

import pytest
from msgspec.structs import replace

from liqod.network.failover.role import Role
from liqod.network.machine import candidacychecks
from liqod.network.machine.candidateservice import CandidateService
from liqod.network.orders.candidacy import (
    Candidacy,
    Claim,
    LeaseFound,
    LeaseRecord,
    LocalCandidate,
)

ME = LocalCandidate(name="one", address="192.168.1.10", key=bytes(32), port=12346)
SOUND = {
    "milan": "192.0.2.1:51840",
    "turin": "[2001:db8::1]:1",
    "oslo": "[::ffff:192.0.2.1]:65535",
}
UNSOUND = {
    "lines": "192.0.2.1:51840\nfwmark=0\nlisten_port=1",
    "keys": "192.0.2.1:1\npublic_key=00",
    "late": "192.0.2.1:1\n",
    "name": "gateway.example.com:51840",
    "zone": "[fe80::1%eth0]:1",
    "bare": "2001:db8::1:51840",
    "braces": "[192.0.2.1]:51840",
    "none": "",
    "large": "192.0.2.1:65536",
    "zero": "192.0.2.1:0",
    "signed": "192.0.2.1:+5",
    "other digits": "192.0.2.1:\u0663",
    "x" * 254: "192.0.2.1:1",
}


def lease(**changed: object) -> LeaseFound:
    return LeaseFound(replace(LeaseRecord(Claim("two", 3, "17", ("one",))), **changed))


def test_of_a_lease_what_is_sound_stays():
    reached = {"one": "one.example.com", "two": "2001:db8::5", "three": "198.51.100.7"}
    found = lease(address="192.168.1.11", endpoints=SOUND, reached=reached)
    assert candidacychecks.sound(found) == found
    assert candidacychecks.sound(LeaseFound(None)) == LeaseFound(None)


def test_no_text_of_a_lease_reaches_a_tunnel_but_addresses():
    wrong = {"one": "a b", "two": "x\ny", "three": "", "four": "x" * 300}
    found = lease(address="all", endpoints={**UNSOUND, **SOUND}, reached=wrong)
    record = candidacychecks.sound(found).record
    assert record is not None
    assert (record.endpoints, record.reached, record.address) == (SOUND, {}, "")


def test_a_lease_has_no_more_than_the_cluster_may_have():
    many = {f"peer-{number}": "192.0.2.1:1" for number in range(5000)}
    claim = Claim("h" * 1000, 3, "17", ("x" * 1000, *many))
    record = candidacychecks.sound(lease(claim=claim, endpoints=many)).record
    assert record is not None
    assert (len(record.endpoints), len(record.claim.holder)) == (4096, 253)
    assert len(record.claim.others) == 4095


@pytest.mark.parametrize(
    ("me", "said"),
    [
        (replace(ME, address="any"), "no address"),
        (replace(ME, address="fe80::1%eth0"), "no address"),
        (replace(ME, port=0), "port"),
        (replace(ME, port=65536), "port"),
        (replace(ME, key=b""), "key"),
        (replace(ME, key=bytes(1000)), "key"),
        (replace(ME, name="x" * 300), "name"),
        (replace(ME, reached="a\nb"), "name"),
    ],
    ids=repr,
)
def test_a_candidate_that_cannot_be_is_none_and_the_one_before_stays(me: LocalCandidate, said: str):
    async def opened(made: object) -> object:
        raise AssertionError("a socket is opened")

    told: list[object] = []
    service = CandidateService(None, Role(), told.append, inside=opened)  # type: ignore[arg-type]
    service.receive(Candidacy(ME, True, frozenset()))
    with pytest.raises(ValueError, match=said):
        service.receive(Candidacy(me, True, frozenset()))
    assert vars(service)["_me"].now == ME


@pytest.mark.parametrize("reached", ["", "192.0.2.1", "2001:db8::1", "gateway.example.com"])
def test_a_sound_candidate(reached: str):
    candidacychecks.candidate(replace(ME, reached=reached))
