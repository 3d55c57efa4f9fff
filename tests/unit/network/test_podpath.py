"""The path from pod to pod, and what a Connection says of it."""

import pytest

from liqod.model.network.podpath import NOT_TRIED, PodPath, read


@pytest.mark.parametrize(
    "path",
    [
        NOT_TRIED,
        PodPath("trying"),
        PodPath("reached"),
        PodPath("untried", "this gateway has no address among its pods"),
        PodPath("failed", "nothing came back: 10.0.0.1 to 10.1.0.1"),
    ],
)
def test_what_is_written_is_read_as_it_was(path: PodPath) -> None:
    assert read(path.text) == path


def test_a_state_of_a_later_version_is_none_that_is_known() -> None:
    assert read("doubted: by somebody") == NOT_TRIED
    assert read("failed altogether") == NOT_TRIED


def test_only_a_trial_that_may_end_otherwise_is_waited_for() -> None:
    open_ = [state for state in ("trying", "reached", "untried", "failed") if PodPath(state).open]
    assert open_ == ["trying", "failed"]
