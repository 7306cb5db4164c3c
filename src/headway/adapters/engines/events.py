"""Server-sent events: where one ends in a stream of bytes, and the data in it."""

import re

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)


class Splitter:
    """Cuts a stream into whole events; their bytes, put together, are the stream's."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that are whole now, each with the empty line that ends it."""
        text = self._rest + piece
        events, begin = [], 0
        for end in _END.finditer(text, max(0, len(self._rest) - 3)):
            events.append(text[begin : end.end()])
            begin = end.end()
        self._rest = text[begin:]
        return events

    def rest(self) -> bytes:
        """What came after the last whole event."""
        rest, self._rest = self._rest, b""
        return rest


def data(event: bytes) -> bytes:
    """The data of an event; empty where it has none, as a comment."""
    return b"\n".join(_DATA.findall(event))
