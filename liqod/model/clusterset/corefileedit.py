"""Gives the zone of the set to the plugin ``kubernetes`` of a Corefile, and takes it back. Pure.

Nothing is written anew: some characters are put in, or taken out, and all others stay. A Corefile
that is not understood is refused with the reason, since one that CoreDNS does not take ends every
name of the cluster.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from liqod.model.clusterset import corefile
from liqod.model.clusterset.corefile import OPTION, PLUGIN, REVERSE, ZONE, is_zone
from liqod.model.clusterset.corefiletext import (
    CLOSES,
    IMPORT,
    CorefileUnclear,
    Plugin,
    Server,
    Word,
    lines,
    servers,
)

Put = Literal["option", "block"]
"""The way in which the option came in: into a block that was there, or with one of its own."""
PUTS: Final[tuple[Put, ...]] = ("option", "block")
INDENT: Final = "    "
PORT: Final = "53"
_KEY: Final = re.compile(r"(?:(?P<scheme>[a-z]+)://)?(?P<zone>[^:/]*)(?::(?P<port>\d+))?")
_ODD: Final = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")


class Added(NamedTuple):
    """A Corefile with the zone of the set.

    Attributes:
        text: the whole of it.
        put: the way in which the option came in; None where it served the zone before.
    """

    text: str
    put: Put | None


def added(text: str, imported: Iterable[str] = ()) -> Added:
    """A Corefile that serves the names of the set; one that does stays as it is.

    Args:
        text: the Corefile.
        imported: the texts of files that it may import.

    Raises:
        CorefileUnclear: it is not understood, or it gives the zone to something else.
    """
    whole = "\n".join((text, *imported))
    if corefile.read(text).directive == OPTION:
        return Added(text, None)
    other = corefile.read(whole).directive
    if other:
        raise CorefileUnclear(f"{ZONE} is given to {other} already")
    if _ODD.search(text):
        raise CorefileUnclear("it has characters that no Corefile has")
    plugin = _of_zone(servers(text))
    _check(plugin)
    own = [each for each in plugin.words[1:] if not each.text.endswith(REVERSE)]
    if not own:
        raise CorefileUnclear(f"the plugin {PLUGIN} names no zone of the cluster")
    put, changed = _put(text, plugin, own[-1].end)
    if corefile.read(changed).directive != OPTION or removed(changed, put) != text:
        raise CorefileUnclear("it could not be taken back")
    return Added(changed, put)


def removed(text: str, put: Put) -> str:
    """A Corefile without the zone of the set that :func:`added` put in; the same where it is gone.

    Raises:
        CorefileUnclear: it is not understood.
    """
    if ZONE not in text.lower():
        return text
    found = [each for server in servers(text) for each in server.plugins if each.name == PLUGIN]
    for plugin in reversed(found):  # the places of those before it stay right
        text = _without(text, plugin, put)
    return text


def _of_zone(found: Iterable[Server]) -> Plugin:
    """The plugin ``kubernetes`` of the server that queries for the zone come to.

    Raises:
        CorefileUnclear: there is none, or more than one.
    """
    serving: dict[str, list[Server]] = {}
    found = list(found)
    for server in found:
        for key in server.keys:
            zone = _zone_of(key)
            if zone is not None and (zone == "" or f".{ZONE}".endswith(f".{zone}")):
                serving.setdefault(zone, []).append(server)
    if not serving:
        raise CorefileUnclear(f"no server takes queries for {ZONE}, such as `.:{PORT} {{`")
    nearest = serving[max(serving, key=len)]
    if len(nearest) > 1:
        raise CorefileUnclear(f"{len(nearest)} servers take queries for {ZONE}")
    plugins = [each for each in nearest[0].plugins if each.name == PLUGIN]
    if len(plugins) == 1:
        return plugins[0]
    names = {each.words[1].text for each in nearest[0].plugins if _imports(each)}
    hidden = next((each for each in found if _snippet(each) in names and _has(each)), None)
    where = f"the snippet {hidden.keys[0]}" if hidden is not None else "its block"
    many = "is in" if hidden is not None else f"stands {len(plugins)} times in"
    raise CorefileUnclear(f"the plugin {PLUGIN} of the server {nearest[0].keys[0]} {many} {where}")


def _imports(plugin: Plugin) -> bool:
    return plugin.name == IMPORT and len(plugin.words) > 1


def _snippet(server: Server) -> str:
    """The name of a snippet; empty for a server."""
    key = server.keys[0]
    return key[1:-1] if key.startswith("(") and key.endswith(")") else ""


def _has(server: Server) -> bool:
    return any(each.name == PLUGIN for each in server.plugins)


def _zone_of(key: str) -> str | None:
    """The zone of a server's key, empty for the root; None where it is not asked by plain DNS.

    Raises:
        CorefileUnclear: the environment tells it.
    """
    if key.startswith("(") and key.endswith(")"):
        return None
    if "{" in key:
        raise CorefileUnclear(f"the server {key} is named by the environment")
    match = _KEY.fullmatch(key)
    if match is None or match["scheme"] not in (None, "dns"):
        return None
    return match["zone"].rstrip(".").lower()


def _check(plugin: Plugin) -> None:
    """Make sure that the option can be put into this plugin's block.

    Raises:
        CorefileUnclear: it cannot.
    """
    place = f"line {plugin.words[0].line + 1}: the plugin {PLUGIN}"
    if any("{" in each.text for each in plugin.words):
        raise CorefileUnclear(f"{place} has a zone that the environment tells")
    if any(is_zone(each.text) for each in plugin.words[1:]):
        raise CorefileUnclear(f"{place} has {ZONE}, but not the option {OPTION}")
    if plugin.opening is None or plugin.closing is None:
        return
    first = plugin.block[0] if plugin.block else plugin.closing
    if first.line == plugin.opening.line or any(each.text == "{" for each in plugin.block):
        raise CorefileUnclear(f"{place} has a block of another shape than one option a line")
    for line in lines(plugin.block):
        if line[0].text in (IMPORT, OPTION):
            raise CorefileUnclear(f"{place} has {line[0].text} in its block")


def _put(text: str, plugin: Plugin, zones_end: int) -> tuple[Put, str]:
    """The way in which the option comes in, and the text with it and the zone."""
    last = (plugin.opening or plugin.words[-1]).end
    line_end = text.find("\n", last)
    ending = "\n" if line_end < 0 or text[line_end - 1] != "\r" else "\r\n"
    margin = _margin(text, plugin.words[0])
    inner = _margin(text, plugin.block[0]) if plugin.block else margin + INDENT
    option = f"{inner}{OPTION} {ZONE}{ending}"
    zone = f"{text[:zones_end]} {ZONE}{text[zones_end:last]}"
    rest = text[last : line_end + 1], text[line_end + 1 :]
    if plugin.opening is not None:
        return "option", f"{zone}{rest[0]}{option}{rest[1]}"
    return "block", f"{zone} {{{rest[0]}{option}{margin}{CLOSES}{ending}{rest[1]}"


def _without(text: str, plugin: Plugin, put: Put) -> str:
    """The text without the zone and the option of one plugin."""
    options = [line for line in lines(plugin.block) if line[0].text == OPTION]
    ours = [line for line in options if [is_zone(each.text) for each in line[1:]] == [True]]
    cuts = [(each.start - 1, each.end) for each in plugin.words[1:] if is_zone(each.text)]
    cuts += [_line_of(text, line[0]) for line in ours]
    alone = bool(ours) and len(plugin.block) == len(ours[0])
    if put == "block" and alone and plugin.opening is not None and plugin.closing is not None:
        cuts += [
            (plugin.opening.start - 1, plugin.opening.end),
            _line_of(text, plugin.closing),
        ]
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _line_of(text: str, word: Word) -> tuple[int, int]:
    """Start and end of the line that a word is in."""
    end = text.find("\n", word.end)
    return text.rfind("\n", 0, word.start) + 1, len(text) if end < 0 else end + 1


def _margin(text: str, word: Word) -> str:
    """The white space before a word that is the first of its line."""
    return text[text.rfind("\n", 0, word.start) + 1 : word.start]
