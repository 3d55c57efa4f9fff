"""The text of a Corefile as CoreDNS takes it apart: words, servers' blocks and plugins. Pure.

Each word keeps its place, so that a change leaves all other bytes as they are. The rules are those
of the parser that CoreDNS has from Caddy (``caddyfile/lexer.go`` and ``parse.go``).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from liqod.errors import ConfigError

OPENS: Final = "{"
CLOSES: Final = "}"
IMPORT: Final = "import"


class CorefileUnclear(ConfigError):
    """A Corefile that is not understood, and so must not be changed."""


class Word(NamedTuple):
    """A word of a Corefile.

    Attributes:
        text: as CoreDNS sees it, without quotes.
        start: offset of its first character.
        end: offset behind its last one.
        line: number of its line, from 0.
    """

    text: str
    start: int
    end: int
    line: int


class Plugin(NamedTuple):
    """A plugin in a server's block.

    Attributes:
        words: its name and what stands behind it on its line.
        opening: the brace that opens its block; None where it has none.
        block: the words in that.
        closing: the brace that closes it.
    """

    words: tuple[Word, ...]
    opening: Word | None = None
    block: tuple[Word, ...] = ()
    closing: Word | None = None

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.words[0].text


class Server(NamedTuple):
    """A server's block, or a snippet.

    Attributes:
        keys: the zones, such as ``.:53``; ``(name)`` of a snippet.
        plugins: in their order, imports among them.
    """

    keys: tuple[str, ...]
    plugins: tuple[Plugin, ...]


def words(text: str) -> Iterator[Word]:
    """The words of a text; comments are left out."""
    line = offset = 0
    while offset < len(text):
        char = text[offset]
        if char.isspace():
            line += char == "\n"
            offset += 1
        elif char == "#":
            end = text.find("\n", offset)
            offset = len(text) if end < 0 else end
        else:
            word, end = (_quoted if char == '"' else _plain)(text, offset)
            yield Word(word, offset, end, line)
            line += text.count("\n", offset, end)
            offset = end


def _plain(text: str, start: int) -> tuple[str, int]:
    end = start
    while end < len(text) and not text[end].isspace() and text[end] != "#":
        end += 1
    return text[start:end], end


def _quoted(text: str, start: int) -> tuple[str, int]:
    """A word in quotes, in which a backslash spares a quote, and its end; to the end for no end."""
    end = start + 1
    while end < len(text) and text[end] != '"':
        end += 1 + (text[end] == "\\")
    return text[start + 1 : end].replace('\\"', '"'), min(end + 1, len(text))


def lines(found: Sequence[Word]) -> Iterator[list[Word]]:
    """The words line by line."""
    same: list[Word] = []
    for word in found:
        if same and word.line != same[-1].line:
            yield same
            same = []
        same.append(word)
    if same:
        yield same


def servers(text: str) -> list[Server]:
    """The servers' blocks and snippets of a Corefile, without what it imports at the top.

    Raises:
        CorefileUnclear: a brace lacks its other, or a server has no block.
    """
    found: list[Server] = []
    left = list(words(text))
    while left:
        keys, left = _keys(left)
        if keys[0].text == IMPORT:
            continue
        if not left or left[0].text != OPENS or left[0].line != keys[-1].line:
            raise CorefileUnclear(f"line {keys[0].line + 1}: {keys[0].text} has no block")
        end = _closing(left)
        named = tuple(each.text.rstrip(",") for each in keys)
        found.append(Server(named, tuple(_plugins(left[1:end]))))
        left = left[end + 1 :]
    return found


def _keys(left: list[Word]) -> tuple[list[Word], list[Word]]:
    """The words before a server's block, and the rest; a comma has them go on in the next line."""
    keys = [left[0]]
    for word in left[1:]:
        ends = word.line != keys[-1].line and not keys[-1].text.endswith(",")
        if ends or word.text == OPENS:
            break
        keys.append(word)
    if any(each.text in (OPENS, CLOSES) for each in keys):
        raise CorefileUnclear(f"line {keys[0].line + 1}: a brace stands for itself")
    return keys, left[len(keys) :]


def _closing(found: Sequence[Word]) -> int:
    """The index of the brace that closes the one at index 0."""
    depth = 0
    for index, word in enumerate(found):
        depth += (word.text == OPENS) - (word.text == CLOSES)
        if depth == 0:
            return index
    raise CorefileUnclear(f"line {found[0].line + 1}: the block is not closed")


def _plugins(body: Sequence[Word]) -> Iterator[Plugin]:
    left = list(body)
    while left:
        same = next(lines(left))
        opens = next((at for at, each in enumerate(same) if each.text == OPENS), -1)
        head = same if opens < 0 else same[:opens]
        if not head or any(each.text == CLOSES for each in head):
            raise CorefileUnclear(f"line {same[0].line + 1}: a brace stands for itself")
        if opens < 0:
            yield Plugin(tuple(head))
            left = left[len(head) :]
            continue
        end = opens + _closing(left[opens:])
        yield Plugin(tuple(head), left[opens], tuple(left[opens + 1 : end]), left[end])
        left = left[end + 1 :]
