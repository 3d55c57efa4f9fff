"""Settings are shown to viewers without secrets, whatever a plugin calls its own."""

from liqod import config
from liqod.inspect import settings

PLANTED = "s3cr3t-that-must-not-leave"
TEXT = f"""
[webhook]
port = 9555
[handshake]
proxy = "http://liqod:{PLANTED}@proxy.example:3128"
[plugins.settings.relay]
psk = "{PLANTED}"
sites = ["{PLANTED}"]
"""


def test_they_are_those_that_are_in_force_without_secrets():
    shown = settings.shown(config.parse(TEXT))
    assert shown["webhook"]["port"] == 9555
    assert shown["plugins"]["settings"] == {
        "relay": {"psk": "(redacted)", "sites": "(redacted)"},
    }
    assert shown["handshake"]["proxy"].endswith("@proxy.example:3128")
    assert PLANTED not in str(shown)
