"""One HTTP answer out of a byte stream: what calling a webhook needs of a client."""

import httptools


class Answer:
    """The parser of one answer.

    Attributes:
        complete: whether all of it has come.
        status: the HTTP status.
    """

    def __init__(self) -> None:
        self.complete = False
        self.status = 0
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    @property
    def body(self) -> bytes:
        """The body that has come so far."""
        return b"".join(self._parts)

    def feed(self, data: bytes) -> None:
        """Take bytes.

        Raises:
            ValueError: this is no HTTP answer.
        """
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError("this is no HTTP answer") from error

    # What httptools calls:

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
