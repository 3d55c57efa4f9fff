"""Options of programs that start without the command line's package: ``run``, ``node``, ``top``.

Mistyped arguments are shown in the error, but for an invitation, which is a secret.
"""

import argparse
from typing import NoReturn

from liqod.model.text import printable
from liqod.model.view.redact import without_invitations


class Parser(argparse.ArgumentParser):
    """Reads options; a mistake ends the program with status 2 and an error message."""

    def error(self, message: str) -> NoReturn:
        """Print the error, without the secret of an invitation, and end the program."""
        super().error(printable(without_invitations(message)))
