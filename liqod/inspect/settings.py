"""The current settings for viewers: without secrets."""

from typing import Any

import msgspec

from liqod.config import Config
from liqod.model.view.redact import HIDDEN, redact_value


def shown(config: Config) -> dict[str, Any]:
    """A configuration as plain values, with no value of a plugin's settings.

    The names in these tables are the plugins' own, so no name marks a secret.
    """
    plain: dict[str, Any] = redact_value(msgspec.to_builtins(config))
    tables = config.plugins.settings
    plain["plugins"]["settings"] = {name: dict.fromkeys(tables[name], HIDDEN) for name in tables}
    return plain
