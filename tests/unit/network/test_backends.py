"""A tunnel backend is behind its wall: whatever it does is named, and nobody else has it worse."""

from pathlib import Path

import pytest

from liqod.errors import NetworkError
from liqod.network.backends import own_folder


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path):
    own_folder(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new").chmod(0o777)
    with pytest.raises(NetworkError, match="others may write"):
        own_folder(tmp_path / "new")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NetworkError, match="not this user's own"):
        own_folder(tmp_path / "link")
