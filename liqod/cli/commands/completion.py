"""``completion``: print the script by which a shell completes liqod's command lines."""

import enum
from typing import Annotated

import typer

from liqod.cli import terminal
from liqod.cli.completion import script


class Shell(enum.StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script that has a shell complete liqod.

    The examples put it where each new shell reads it; in bash that takes the package
    bash-completion, in zsh `compinit` above it. For `kubectl liqod` kubectl's own script does it.

    \b
    Examples:
      liqod completion bash > ~/.local/share/bash-completion/completions/liqod
      liqod completion zsh >> ~/.zshrc
      liqod completion fish > ~/.config/fish/completions/liqod.fish
    """
    terminal.print_text(script(shell), lines=True)
