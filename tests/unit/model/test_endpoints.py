"""``HOST:PORT``."""

import pytest

from liqod.model import endpoints


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("milan.example:6446", ("milan.example", 6446)),
        ("_a.b:1", ("_a.b", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[fd00::1]:6446", ("fd00::1", 6446)),
        ("[fe80::1%eth0]:6446", ("fe80::1%eth0", 6446)),
    ],
)
def test_what_is_one_is_read_and_written_again(text, found):
    assert endpoints.split(text) == found
    assert endpoints.join(*found) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "milan", "milan:", ":6446", "milan:0", "milan:65536", "milan:+1", "milan:1e3",
        "milan:١",
        "fd00::1:6446", "[milan]:6446", "[fd00::1]", "a b:1", "a\n:1", "a/b:1", "user@a:1", "-a:1",
        "a" * 300 + ":1", "milan:6446\n",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(text):
    assert endpoints.split(text) is None
