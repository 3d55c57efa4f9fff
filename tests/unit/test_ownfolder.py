"""A folder for the files of programs is its user's alone."""

from pathlib import Path

import pytest

from liqod.errors import NetworkError
from liqod.runtime.ownfolder import own_folder


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path):
    own_folder(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new").chmod(0o777)
    with pytest.raises(NetworkError, match="others may write"):
        own_folder(tmp_path / "new")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NetworkError, match="not this user's own"):
        own_folder(tmp_path / "link")
