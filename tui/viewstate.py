"""The state of one daemon's view: the session, the viewer's place, and the options of each view.

Nothing here draws or waits; ``app`` does.
"""

from dataclasses import dataclass, field, replace

from liqod.inspect.protocol import ServerMessage
from tui.session import Lost, Session, reduce
from tui.table import Order, Place, Row, Table, arrange
from tui.views import catalog


@dataclass
class ViewOptions:
    """How one view is wanted: filtered, ordered, with the cursor on a row and others selected."""

    expression: str = ""
    order: Order = field(default_factory=Order)
    cursor: str = ""
    selected: set[str] = field(default_factory=set)


class ViewState:
    """Where a viewer is.

    Args:
        name: of the daemon, until it says it itself.

    Attributes:
        still: whether its clock stands, as that of a recording that is paused.
    """

    def __init__(self, name: str) -> None:
        self.session = Session(name)
        self.frozen: Session | None = None
        self._frozen_at = 0.0
        self._heard = 0.0
        self.still = False
        self.places: list[Place] = [catalog.HOME]
        self._options: dict[tuple[str, str], ViewOptions] = {}

    @property
    def place(self) -> Place:
        """Where the viewer is."""
        return self.places[-1]

    @property
    def shown(self) -> Session:
        """The session that is shown: the newest, unless it was frozen."""
        return self.frozen or self.session

    @property
    def options(self) -> ViewOptions:
        """How the present view is wanted."""
        return self._options.setdefault((self.place.view, self.place.part), ViewOptions())

    def receive(self, message: ServerMessage | Lost, steady: float) -> None:
        """Take in one message that came at ``steady``, seconds that never go back."""
        at = self.session.at
        self.session = reduce(self.session, message)
        if self.session.at != at:
            self._heard = steady

    def now(self, steady: float) -> float:
        """The daemon's clock; it stands still with what is shown."""
        if self.frozen is not None:
            return self._frozen_at
        return self._clock(steady)

    def _clock(self, steady: float) -> float:
        session = self.session
        if session.connection == "lost" or self.still or not session.at:
            return session.at
        return session.at + max(0.0, steady - self._heard)

    def table(self, now: float) -> Table:
        """The present view, filtered and ordered."""
        view = catalog.VIEWS[self.place.view]
        table = view.build(self.shown, self.place, now)
        if self.shown.sequence < 0:
            table = replace(table, empty="nothing is known yet: the daemon has not answered")
        return arrange(table, self.options.expression, self.options.order)

    def go(self, place: Place) -> None:
        """Show a view from the top; a place entered from it goes on top of that."""
        view = catalog.VIEWS[place.view]
        self.places = [place] if view.key and not place.subject else [*self.places[:1], place]

    def enter(self, row: Row) -> None:
        """Follow a row to where it leads."""
        if row.into is not None and row.into.view in catalog.VIEWS and row.into != self.place:
            self.places.append(row.into)

    def back(self) -> bool:
        """Take away the filter, else go back one place; False at the first view."""
        if self.options.expression:
            self.options.expression = ""
            return True
        if len(self.places) > 1:
            self.places.pop()
            return True
        if self.place != catalog.HOME:
            self.places = [catalog.HOME]
            return True
        return False

    def turn(self, step: int) -> None:
        """The next tab of a page that has some, or the one before."""
        parts = catalog.parts(self.place)
        if parts:
            index = parts.index(self.place.part) if self.place.part in parts else 0
            self.places[-1] = self.place._replace(part=parts[(index + step) % len(parts)])

    def freeze(self, steady: float) -> None:
        """Hold what is shown still, or let it go on."""
        self._frozen_at = self._clock(steady)
        self.frozen = None if self.frozen is not None else self.session

    def select(self, key: str) -> None:
        """Select a row, or not any more."""
        self.options.selected ^= {key}

    def subjects(self, row: Row | None) -> list[str]:
        """The subjects of an action: the selected rows, else the row under the cursor."""
        if self.place.view == "peer":
            return [self.place.subject]
        if self.options.selected:
            return sorted(self.options.selected)
        return [row.key] if row is not None else []

    def crumbs(self) -> str:
        """The way here."""
        names = []
        for place in self.places:
            words = [place.view if not place.subject else place.subject, place.part]
            names.append(" ".join(word for word in words if word))
        return " › ".join(names)
