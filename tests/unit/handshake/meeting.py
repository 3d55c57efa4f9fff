"""Two machines and what crosses between them, for tests."""

import functools
import os

from liqod.handshake.protocol import proof
from liqod.handshake.protocol.encoding import pack
from liqod.handshake.protocol.messages import Accepted, Ask, Prove, encode
from liqod.handshake.protocol.outputs import (
    ExpectedPeer,
    LocalIdentity,
    Output,
    Outputs,
    Send,
    SessionEnd,
    VerifiedPeer,
)
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.identity import keys
from liqod.identity.clustercertificates import certificate_of

REQUEST = "0a0b0c0d-0000-4000-8000-000000000001"
OTHER = "0a0b0c0d-0000-4000-8000-000000000002"
ASK = Ask(request=REQUEST, resources={"cpu": "4", "memory": "8Gi"}, lifetime=3600)
NONCE = pack(b"n" * 32)
SECRET = pack(b"s" * 16)
PRINT = keys.print_of
YES = Accepted(granted={"cpu": "2"}, kubeconfig="apiVersion: v1", namespace="liqo-tenant-rome")


@functools.cache
def private(name: str, kind: str = "ed25519") -> bytes:
    """A cluster's key."""
    make = {"ed25519": keys.generate, "ecdsa": keys.generate_tls, "rsa": keys.generate_rsa}
    return make[kind]()


def public(name: str) -> bytes:
    """Its public one."""
    return keys.public_pem(private(name))


def own(name: str, **changed) -> LocalIdentity:
    """A cluster's side."""
    return LocalIdentity(**{"cluster_id": name, "private": private(name), **changed})


@functools.cache
def certificate(name: str) -> bytes:
    """The certificate that a cluster shows as a listener, DER."""
    return certificate_of(private(name)).der


def dialler(name="rome", expected=None, shown="milan", **changed) -> DiallerMachine:
    """A cluster that calls another one."""
    return DiallerMachine(
        own(name, **changed), expected or ExpectedPeer(), certificate(shown), os.urandom(32)
    )


def listener(name="milan", **changed) -> ListenerMachine:
    """A cluster that is called."""
    return ListenerMachine(own(name, **changed), certificate(name), os.urandom(32))


def prove(name: str, shown: str, hello: str, welcome: str, nonce: bytes) -> str:
    """The proof of a cluster that calls another one, with any nonce.

    Args:
        name: the cluster.
        shown: the one whose certificate it is shown.
        hello, welcome: the two messages before it.
        nonce: the one that it names.
    """
    digest = proof.transcript(certificate(shown), hello, welcome, nonce)
    signature = proof.prove(private(name), "dialler", digest)
    return encode(Prove(nonce=pack(nonce), signature=pack(signature)))


def said(outputs: Outputs) -> list[str]:
    """The messages to send."""
    return [each.text for each in outputs if isinstance(each, Send)]


def exchange(outputs: Outputs, one, other) -> tuple[list[Output], list[Output]]:
    """Lets all cross that `one` has to send, and what follows; what each side has told besides."""
    told: tuple[list[Output], list[Output]] = ([], [])
    waiting = [(outputs, 0)]
    while waiting:
        outputs, side = waiting.pop(0)
        told[side].extend(each for each in outputs if not isinstance(each, Send))
        to = (other, one)[side]
        waiting.extend((to.receive(text), 1 - side) for text in said(outputs))
    return told


def met(listening=None, **changed) -> tuple[DiallerMachine, ListenerMachine]:
    """A dialler and a listener that know each other."""
    one, other = dialler(**changed), listener(**(listening or {}))
    exchange(one.start(), one, other)
    assert one.stage == other.stage == "met"
    return one, other


def ended(outputs) -> SessionEnd:
    """The end, which is the last output."""
    assert isinstance(outputs[-1], SessionEnd), outputs
    return outputs[-1]


def known(side: DiallerMachine | ListenerMachine) -> VerifiedPeer:
    """The peer that a side has identified."""
    assert side.peer is not None
    return side.peer
