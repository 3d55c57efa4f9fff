"""The Textual program: draws each view's state, takes keys, hands actions to :mod:`tui.asking`.

Messages are taken in as they come and drawn once a second: what happens between two drawings
costs the terminal nothing.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from liqod.inspect.protocol import InspectorHello, ServerMessage, Verb
from tui import asking, commands, head, keys, pages
from tui.commands import Do, Go, Local, Mistake
from tui.link import NotConnected, Source
from tui.plain import Plain
from tui.recording import BadRecording
from tui.replay import Replay
from tui.session import Lost
from tui.table import Cell, Place
from tui.tape import Tape
from tui.views import catalog
from tui.viewstate import ViewState
from tui.widgets.dialogs import Help
from tui.widgets.grid import Grid
from tui.widgets.prompt import Prompt

DRAWN_EVERY = 1.0
"""Seconds; a view is drawn anew though nothing came, since its ages grow."""


class Top(App[None]):
    """``liqod top``.

    Args:
        sources: the daemons, or a recording.
        read_only: offer no actions, whatever the daemons allow.
        start: where to begin.
        wall: Unix seconds.
        steady: seconds that never go back.
    """

    CSS_PATH = Path(__file__).with_name("top.tcss")
    TITLE = "liqod top"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key.key, key.action, key.label, show=False) for key in keys.ALL),
        *(
            Binding(view.key, f"view('{view.name}')", view.title, show=False)
            for view in catalog.VIEWS.values()
            if view.key
        ),
    ]

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        read_only: bool = False,
        start: Place = catalog.HOME,
        note: str = "",
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.view_states = [ViewState(source.name) for source in sources]
        for view_state in self.view_states:
            view_state.go(start)
        self._sources = list(sources)
        self._read_only = read_only
        self._wall = wall
        self._steady = steady
        self._current = 0
        self._choice = note
        self._tape = Tape(self)
        if self.no_color:
            self._filters[:] = [Plain()]

    @property
    def view_state(self) -> ViewState:
        """The daemon that is looked at."""
        return self.view_states[self._current]

    @property
    def source(self) -> Source:
        """The source of the daemon that is looked at."""
        return self._sources[self._current]

    @property
    def acting(self) -> bool:
        """True if actions are offered."""
        return self.view_state.session.acting and not self._read_only

    @property
    def _playing(self) -> bool:
        return isinstance(self.source, Replay)

    def now(self) -> float:
        """The time by the daemon's clock, as the present view is to show it."""
        return self.view_state.now(self._steady())

    def compose(self) -> ComposeResult:
        """The widgets from top to bottom: daemons, head, table, prompt and keys."""
        several = "several" if len(self.view_states) > 1 else ""
        yield Static(id="daemons", markup=False, classes=several)
        yield Static(id="title", markup=False)
        yield Static(id="sentence", markup=False)
        yield Static(id="tabs", markup=False)
        yield Static(id="notes", markup=False)
        yield Grid(id="grid")
        yield Static(id="crumbs", markup=False)
        yield Prompt(lambda: self.view_state.session, id="prompt")
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to listen and to draw."""
        self.query_one(Grid).focus()
        for view_state, source in zip(self.view_states, self._sources, strict=True):
            self._listen(view_state, source)
        self.set_interval(DRAWN_EVERY, self._draw)
        self._refresh_tasks()
        if self._choice:
            self.notify(self._choice, markup=False)

    @work(group="links")
    async def _listen(self, view_state: ViewState, source: Source) -> None:
        try:
            await source.run(lambda message: self._receive(view_state, source, message))
        except BadRecording as error:
            self._receive(view_state, source, Lost(str(error), self._wall()))

    @work(group="tasks")
    async def _refresh_tasks(self) -> None:
        """Ask for the task tree for as long as somebody looks at it."""
        while True:
            if self.view_state.place.view == "tasks" and self.view_state.frozen is None:
                await asking.look_at_tasks(self.source)
            await asyncio.sleep(asking.TASKS_EVERY)

    @work(group="history")
    async def _fill_trends(self, view_state: ViewState, source: Source) -> None:
        await asking.fill_trends(source, list(view_state.session.state.peers))

    def _receive(
        self, view_state: ViewState, source: Source, message: ServerMessage | Lost
    ) -> None:
        fresh = view_state.session.sequence < 0
        view_state.receive(message, self._steady())
        if view_state is self.view_state:
            self._tape.add(message)
        if fresh and view_state.session.sequence >= 0:
            self._draw()
            self._fill_trends(view_state, source)
        elif isinstance(message, (Lost, InspectorHello)):
            self._draw()

    def _draw(self) -> None:
        """Make the table and show what is different of it."""
        if not self.is_running or isinstance(self.screen, Help):
            return
        view_state, now = self.view_state, self.now()
        table = view_state.table(now)
        options = view_state.options
        grid = self.screen_stack[0].query_one(Grid)
        self._put("title", head.title(view_state.session, now))
        self._put("sentence", head.sentence(view_state.session, now, self._wall()), fold=True)
        self._put("tabs", Cell(head.tabs(view_state, self.size.width), "dim"))
        self._put("notes", *table.notes)
        self._put("crumbs", Cell(head.crumbs(view_state, len(table.rows)), "dim"))
        self._put("keys", Cell(keys.line(view_state.place.view, self.acting, self._playing)))
        if len(self.view_states) > 1:
            self._put(
                "daemons", Cell(head.daemons(self.view_states, self._current, self._steady()))
            )
        grid.show(table, options.order, frozenset(options.selected), options.cursor)

    def _put(self, name: str, *cells: Cell, fold: bool = False) -> None:
        """Write a line or several, unless they say that already."""
        widget = self.screen_stack[0].query_one(f"#{name}", Static)
        shown = getattr(widget, "shown", None)
        if shown != cells:
            widget.shown = cells  # type: ignore[attr-defined]
            widget.update(asking.painted(cells, fold=fold))
            widget.display = bool(cells)

    def on_grid_entered(self, event: Grid.Entered) -> None:
        """Follow the row; a pod's is its description."""
        if event.row.into is not None and event.row.into.view == "pod":
            self.action_describe()
        else:
            self.view_state.enter(event.row)
            self._draw()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """Remember where the cursor is."""
        self.view_state.options.cursor = event.key

    def action_view(self, name: str) -> None:
        """Show a view."""
        self.view_state.go(Place(name))
        self._draw()

    def action_leave(self) -> None:
        """Close the prompt, take away the filter, or go back."""
        prompt = self.query_one(Prompt)
        if prompt.is_open:
            prompt.close(undo=True)
        else:
            self.view_state.back()
        self._draw()

    def action_turn(self, step: int) -> None:
        """Another tab of the page."""
        self.view_state.turn(step)
        self._draw()

    def action_daemon(self, step: int) -> None:
        """Another daemon."""
        self._current = (self._current + step) % len(self.view_states)
        self._draw()

    def action_sort(self) -> None:
        """By the next column."""
        options = self.view_state.options
        options.order = options.order.next(len(self.query_one(Grid).table.columns))
        self._draw()

    def action_reverse(self) -> None:
        """The other way round."""
        self.view_state.options.order = self.view_state.options.order.reverse()
        self._draw()

    def action_select(self) -> None:
        """Select the row and go to the next."""
        grid = self.query_one(Grid)
        if grid.row is not None:
            self.view_state.select(grid.row.key)
            grid.action_move(1)
            self._draw()

    def action_freeze(self) -> None:
        """Hold still, or go on."""
        self.view_state.freeze(self._steady())
        self._draw()

    def action_pause(self) -> None:
        """Have a recording stand still, or go on."""
        if isinstance(self.source, Replay):
            self.source.pause()
            self.view_state.still = self.source.paused
            self._draw()

    def action_seek(self, seconds: int) -> None:
        """Go on or back in a recording."""
        if isinstance(self.source, Replay):
            self.source.seek(seconds)
            if self.source.ended:
                self._listen(self.view_state, self.source)

    def action_help(self) -> None:
        """Show the help of this view and its keys."""
        view = catalog.VIEWS[self.view_state.place.view]
        self.push_screen(Help(view.title, keys.explained(view, self.acting, self._playing)))

    def action_filter(self) -> None:
        """Begin to type a filter."""
        self.query_one(Prompt).open("/", before=self.view_state.options.expression)

    def action_command(self) -> None:
        """Begin to type a command."""
        self.action_prompt(":")

    def action_prompt(self, text: str) -> None:
        """Open the prompt with some text in it."""
        self.query_one(Prompt).open(text)

    def on_prompt_filtered(self, event: Prompt.Filtered) -> None:
        """Show what the filter leaves."""
        self.view_state.options.expression = event.expression
        self._draw()

    def on_prompt_commanded(self, event: Prompt.Commanded) -> None:
        """Do what was typed."""
        self._obey(commands.read(event.line))
        self._draw()

    def on_prompt_closed(self) -> None:
        """Back to the table."""
        self.query_one(Grid).focus()

    def _obey(self, command: commands.Command) -> None:
        match command:
            case Go(place):
                self.view_state.go(place)
            case Do(verb, subject, options):
                self.act(verb, [subject], options)
            case Mistake(text):
                self.notify(text, severity="warning", markup=False)
            case Local("quit"):
                self.exit()
            case Local("help"):
                self.action_help()
            case Local("freeze"):
                self.action_freeze()
            case Local("tab"):
                self.action_turn(1)
            case Local("record", name):
                self.action_record(name)

    def action_describe(self) -> None:
        """Everything that is known of the row."""
        view_state, row = self.view_state, self.query_one(Grid).row
        text = pages.describe(view_state.shown, view_state.place, row, self.now())
        self.push_screen(asking.page_of_text("description", text))

    def action_manifest(self) -> None:
        """The object behind the row."""
        found = pages.behind(self.view_state.place, self.query_one(Grid).row)
        if found is not None:
            self.push_screen(asking.page_of_object(self.source, found))

    def action_pod(self, page: str) -> None:
        """A page on the pod under the cursor: its log as it grows, or the verdicts of nodes."""
        found = pages.behind(self.view_state.place, self.query_one(Grid).row)
        if found is not None and found.kind == "Pod":
            self.push_screen(asking.OF_PODS[page](self.source, found))

    def action_act(self, verb: Verb) -> None:
        """An action on what is selected, or on the row."""
        keys_ = self.view_state.subjects(self.query_one(Grid).row)
        subjects = [pages.subject(self.view_state.place, key, verb) for key in keys_]
        subjects = list(dict.fromkeys(subject for subject in subjects if subject))
        if subjects:
            self.act(verb, subjects, {})
        else:
            self.notify("there is nothing to do that to", severity="warning")

    def act(self, verb: Verb, subjects: list[str], options: dict[str, str]) -> None:
        """Preview, ask, do; says why not where that may not be."""
        if self._read_only:
            self.notify("started with --read-only", severity="warning")
        elif not self.acting:
            self.notify("this user may look, but not act", severity="warning")
        else:
            self._do(verb, subjects, options)

    @work(group="actions")
    async def _do(self, verb: Verb, subjects: list[str], options: dict[str, str]) -> None:
        try:
            await asking.act(self, self.source, verb, subjects, options)
        except NotConnected as error:
            self.notify(str(error), severity="error", markup=False)

    def action_record(self, name: str = "") -> None:
        """Begin to record what is looked at, or end that."""
        if self.is_web and self._read_only:
            self.notify("a window of --web writes no files; --web-write allows it", markup=False)
        else:
            self._tape.toggle(name, self.view_state.session, self._wall())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The commands of ``ctrl+p``: views, keys, and Textual's own."""
        for view in catalog.offered(self.view_state.session):
            go = Place(view.name)
            yield SystemCommand(view.title, view.help, lambda go=go: self._obey(Go(go)))
        for key in keys.of_view(self.view_state.place.view, self.acting, self._playing):
            yield SystemCommand(key.label, f"key {key.shown}", self._runner(key.action))
        for command in super().get_system_commands(screen):
            # Textual hands it out by an address of its own, which is not served.
            if not (self.is_web and command.title == "Screenshot"):
                yield command

    def _runner(self, action: str) -> Callable[[], None]:
        def run() -> None:
            self.call_later(self.run_action, action)

        return run

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of other views, and actions that this user may not do, are not there."""
        if len(self.screen_stack) > 1 and action in keys.NAMES:
            return False
        wanted = keys.find(action, parameters)
        if wanted is None:
            return True
        return wanted in keys.of_view(self.view_state.place.view, self.acting, self._playing)

    def on_unmount(self) -> None:
        """Finish a recording."""
        self._tape.close()
