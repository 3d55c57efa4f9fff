"""Messages between candidates: questions and answers, each a datagram with a code.

The code is made with a key that only candidates of this cluster have, so that nobody else on the
nodes' network can speak for a gateway that is dead, or for a standby. An answer repeats the number
of its question, and a question that of the last answer: a replayed message has no effect.
"""

import hmac
import struct
from hashlib import sha256
from typing import Final

import msgspec

PORT: Final = 12346
"""UDP, on the nodes' own network."""
LARGEST: Final = 512
"""Bytes of a datagram."""
_QUESTION, _ANSWER = b"lqg?", b"lqg!"
_HEAD: Final = struct.Struct("!4sQQQBB")
_CODE: Final = 32
NAME, SAID = 253, 190
"""Bytes of a name, and of what else is said: a version, an address."""


class Question(msgspec.Struct, frozen=True):
    """A standby's request to the gateway for a sign of life.

    Attributes:
        name: of who asks.
        number: of the question.
        had: the number of the last answer; 0 for none.
        epoch: the newest that it knows.
        address: where peers reach it.
    """

    name: str
    number: int
    had: int
    epoch: int
    address: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer of the gateway, with its state.

    Attributes:
        name: of who answers; empty where it is not at work.
        number: of the answer.
        question: the number of the question.
        epoch: the newest that it knows.
        version: of the Lease, as the gateway knows it; empty for one who has not confirmed an
            answer yet.
    """

    name: str
    number: int
    question: int
    epoch: int
    version: str


def key_of(secret: bytes, cluster_id: str) -> bytes:
    """The key of a cluster's candidates, of its own secret."""
    return hmac.digest(secret, f"liqod gateway candidates of {cluster_id}".encode(), sha256)


def encoded(message: Question | Answer, key: bytes) -> bytes:
    """A message as a datagram.

    Raises:
        ValueError: a name is too long.
    """
    name = message.name.encode()
    if isinstance(message, Question):
        kind, numbers = _QUESTION, (message.number, message.had)
        said = message.address.encode()
    else:
        kind, numbers = _ANSWER, (message.number, message.question)
        said = message.version.encode()
    if len(name) > NAME or len(said) > SAID:
        raise ValueError(
            f"a name of more than {NAME} bytes, or {SAID} of what else, cannot be said"
        )
    body = _HEAD.pack(kind, *numbers, message.epoch, len(name), len(said)) + name + said
    return body + hmac.digest(key, body, sha256)


def read(data: bytes, key: bytes) -> Question | Answer | None:
    """A datagram as a message; None where it is none, or another's."""
    if not _HEAD.size + _CODE <= len(data) <= LARGEST:
        return None
    body, code = data[:-_CODE], data[-_CODE:]
    kind, first, second, epoch, long, longer = _HEAD.unpack_from(body)
    if kind not in (_QUESTION, _ANSWER) or len(body) != _HEAD.size + long + longer:
        return None
    if not hmac.compare_digest(hmac.digest(key, body, sha256), code):
        return None
    rest = body[_HEAD.size :]
    name, said = (each.decode("utf-8", "replace") for each in (rest[:long], rest[long:]))
    if kind == _QUESTION:
        return Question(name, first, second, epoch, said)
    return Answer(name, first, second, epoch, said)
