"""The treatment of a peer's endpoints by how long it has been silent."""

import pytest

from liqod.model.clusterset.standing import LEASE, Standing, standing


@pytest.mark.parametrize(
    ("silence", "found"),
    [
        (None, Standing.REACHED),
        (0.0, Standing.SILENT),
        (LEASE - 1, Standing.SILENT),
        (LEASE, Standing.LAPSED),
    ],
)
def test_endpoints_of_a_silent_peer_are_not_ready_at_once_and_go_in_the_end(silence, found):
    assert standing(silence) is found
