"""The man pages, made of the program itself: ``liqod(1)``, and one for each verb."""

import argparse
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import typer
import typer.main

from liqod import __version__, daemon, node
from liqod.cli import app
from simulator.demo import program as demo
from tui import __main__ as top

PROGRAMS: Final[Mapping[str, argparse.ArgumentParser]] = {
    "run": daemon.parser(),
    "node": node.parser(),
    "top": top.parser(),
    "demo": demo.parser(),
}
"""The parsers of the verbs that start without the command line's package."""
ENVIRONMENT: Final = (
    ("KUBECONFIG", "The kubeconfig of commands that are given none by --kubeconfig."),
    ("LIQOD_CONFIG", "The configuration of a daemon that is given none by --config."),
    ("LIQOD_KUBECONFIG", "The kubeconfig of a daemon, before that of its configuration."),
)
STATUS: Final = (
    ("0", "The command did what it was asked."),
    ("1", "It failed, and said why in one sentence."),
    ("2", "The command line or the configuration is none that can be understood."),
    ("130", "It was interrupted."),
)


class Command(NamedTuple):
    """A command as its page shows it.

    Attributes:
        words: the command, from the verb on.
        usage: the words behind it.
        sentence: what it does, in the list of commands.
        about: its paragraphs.
        options: each option with its help.
        examples: command lines.
    """

    words: str
    usage: str
    sentence: str
    about: list[str]
    options: list[tuple[str, str]]
    examples: list[str]


def pages(epoch: int) -> dict[str, str]:
    """All man pages by their file names.

    Args:
        epoch: the date that they show, in seconds since 1970.
    """
    date = datetime.fromtimestamp(epoch, UTC).date().isoformat()
    whole: Any = typer.main.get_command(app.tree())
    named = dict.fromkeys(words.split()[0] for words in app.COMMANDS)
    verbs = {verb: list(_commands(whole, verb)) for verb in named}
    made = {"liqod.1": _page("liqod", date, _overview(whole, verbs))}
    for verb, commands in verbs.items():
        made[f"liqod-{verb}.1"] = _page(f"liqod-{verb}", date, _verb(verb, commands))
    return made


def _commands(whole: Any, verb: str) -> Iterator[Command]:
    """The commands of a verb, in the order of the help."""
    if verb in PROGRAMS:
        yield _of_parser(verb, whole.commands[verb], PROGRAMS[verb])
        return
    for words in app.COMMANDS:
        first, *below = words.split()
        if first == verb:
            command = whole.commands[first]
            yield _of_command(words, command.commands[below[0]] if below else command)


def _of_parser(verb: str, named: Any, parser: argparse.ArgumentParser) -> Command:
    sentence, *rest = _paragraphs(named.help)
    about = [_line(parser.description), *rest, _line(parser.epilog)]
    shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    options = [(_names(each), each.help or "") for each in shown]
    return Command(verb, "[OPTIONS]", sentence, [each for each in about if each], options, [])


def _names(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    return f"{', '.join(action.option_strings)} {value}".strip()


def _of_command(words: str, command: Any) -> Command:
    # Typer's group calls itself alone, with its options, where no command follows it.
    context = command.make_context(f"liqod {words}", [], resilient_parsing=True)
    usage = [each for each in command.collect_usage_pieces(context) if each != "COMMAND [ARGS]..."]
    about, _, examples = (command.help or "").partition("\b")
    records = [each.get_help_record(context) for each in command.get_params(context)]
    lines = [line.strip() for line in examples.splitlines()]
    paragraphs = _paragraphs(about)
    return Command(
        words,
        " ".join(usage),
        paragraphs[0],
        paragraphs,
        [each for each in records if each is not None],
        [line for line in lines if line.startswith("liqod ")],
    )


def _paragraphs(text: str) -> list[str]:
    """The paragraphs of a help, each in one line, without where it leads to the help."""
    found = [_line(each) for each in re.sub(r" \(.*--help.*\)", "", text).strip().split("\n\n")]
    return [re.sub(r" ?`liqod \w+ --help` has its options\.", "", each) for each in found]


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _overview(whole: Any, verbs: Mapping[str, list[Command]]) -> Iterator[str]:
    yield from _name("liqod", whole.help)
    yield from _synopsis(["liqod COMMAND [OPTIONS] [ARGUMENTS]", "kubectl liqod COMMAND …"])
    yield ".SH DESCRIPTION"
    yield roff(whole.help)
    yield ".PP"
    yield roff("`liqod COMMAND --help` explains each command, and so does its own page.")
    yield ".SH COMMANDS"
    yield from _terms((verb, _what(verb, verbs[verb])) for verb in verbs)
    yield ".SH OPTIONS"
    context = whole.make_context("liqod", [], resilient_parsing=True)
    records = [each.get_help_record(context) for each in whole.get_params(context)]
    yield from _terms(each for each in records if each is not None)
    yield ".SH ENVIRONMENT"
    yield from _terms(ENVIRONMENT)
    yield ".SH EXIT STATUS"
    yield from _terms(STATUS)
    yield ".SH SEE ALSO"
    yield ",\n".join(_reference(f"liqod-{verb}") for verb in verbs)


def _alone(verb: str, commands: list[Command]) -> bool:
    """True if the verb is a command and has none below it."""
    return [each.words for each in commands] == [verb]


def _what(verb: str, commands: list[Command]) -> str:
    """The sentence about a verb."""
    return commands[0].sentence if _alone(verb, commands) else app.GROUPS[verb]


def _verb(verb: str, commands: list[Command]) -> Iterator[str]:
    alone = _alone(verb, commands)
    yield from _name(f"liqod-{verb}", _what(verb, commands))
    yield from _synopsis(f"liqod {each.words} {each.usage}".strip() for each in commands)
    for each in commands:
        yield ".SH DESCRIPTION" if alone else f".SH {roff(each.words.upper())}"
        yield "\n.PP\n".join(map(roff, each.about))
        if each.options:
            yield ".SH OPTIONS" if alone else ".SS Options"
            yield from _terms(each.options)
        if each.examples:
            yield ".SH EXAMPLES" if alone else ".SS Examples"
            yield from _verbatim(each.examples)
    yield ".SH SEE ALSO"
    yield _reference("liqod")


def _page(name: str, date: str, lines: Iterable[str]) -> str:
    title = roff(name.upper())
    header = f'.TH {title} 1 {date} "liqod {__version__}" "liqod"'
    return "\n".join([header, *lines]) + "\n"


def _name(name: str, sentence: str) -> list[str]:
    return [".SH NAME", f"{roff(name)} \\- {roff(_line(sentence).rstrip('.'))}"]


def _synopsis(lines: Iterable[str]) -> Iterator[str]:
    yield ".SH SYNOPSIS"
    yield from _verbatim(lines)


def _verbatim(lines: Iterable[str]) -> Iterator[str]:
    """Lines as they are."""
    yield ".nf"
    yield from map(_safe, lines)
    yield ".fi"


def _terms(terms: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in terms:
        yield ".TP"
        yield f"\\fB{roff(term)}\\fP"
        yield roff(_line(text)) or "\\&"


def _reference(page: str) -> str:
    return f"\\fB{roff(page)}\\fP(1)"


def roff(text: str) -> str:
    """A text in lines, with what it has in backticks in bold."""
    bold = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", _safe(text))
    wrapped = textwrap.wrap(bold, 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join(_request(line) for line in wrapped)


def _safe(text: str) -> str:
    """A line of which roff takes nothing for its own: neither escapes nor a request."""
    return _request(text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq"))


def _request(line: str) -> str:
    return f"\\&{line}" if line.startswith(".") else line
