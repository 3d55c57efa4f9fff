"""The recording that a viewer makes of what is shown: begun, written on, and ended."""

import time
from pathlib import Path

from textual.app import App

from liqod.inspect.protocol import ServerMessage, StateSnapshot
from tui.recording import Recorder
from tui.session import Lost, Session


class Tape:
    """At most one recording at a time.

    Args:
        app: is notified when one begins and ends.
    """

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._recorder: Recorder | None = None

    def toggle(self, name: str, session: Session, now: float) -> None:
        """Begin one, of what is known and then of what comes, or end the one that there is.

        Args:
            name: of the file; empty for one that names the cluster and the time.
            session: what is known.
            now: Unix seconds.
        """
        if self._recorder is not None:
            path = self._recorder.path
            self.close()
            self._app.notify(f"recorded to {path}", markup=False)
            return
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        path = Path(name or f"liqod-{session.title}-{stamp}.jsonl")
        try:
            self._recorder = start(path, session)
        except OSError as error:
            self._app.notify(f"cannot record: {error}", severity="error", markup=False)
        else:
            self._app.notify(f"recording to {self._recorder.path}; w ends it", markup=False)

    def add(self, message: ServerMessage | Lost) -> None:
        """One message more, if one is made."""
        if self._recorder is None:
            return
        try:
            self._recorder.add(message)
        except OSError as error:
            self._recorder = None
            self._app.notify(f"the recording ends: {error}", severity="error", markup=False)

    def close(self) -> None:
        """Finish what there is."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None


def start(path: Path, session: Session) -> Recorder:
    """A recording that begins with what is known now; raises OSError."""
    recorder = Recorder(path)
    if session.hello is not None:
        recorder.add(session.hello)
        if session.sequence >= 0:
            recorder.add(
                StateSnapshot(
                    sequence=session.sequence,
                    at=session.at,
                    state=session.state,
                    events=session.events,
                    lines=session.lines,
                )
            )
    return recorder
