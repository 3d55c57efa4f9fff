"""The order of the long tests names files that there are."""

from pathlib import Path

import pytest

from tests.testbed.order import LONGEST, TOGETHER, ByClusters

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", LONGEST)
def test_a_long_file_is_there(name: str):
    assert (TESTS / name).is_file()


def test_each_is_named_once():
    assert len({*LONGEST}) == len(LONGEST)


def test_files_that_share_clusters_go_to_one_worker_in_the_order_of_the_list():
    split = ByClusters._split_scope
    for folder in TOGETHER:
        files = sorted((TESTS.parent / folder).glob("test_*.py"))
        assert {split(None, f"{folder}{each.name}::test_it") for each in files} == {folder}  # type: ignore[arg-type]
        places = [LONGEST.index(str(each.relative_to(TESTS))) for each in files]
        assert max(places) - min(places) == len(files) - 1
    other = "tests/node/test_pods.py"
    assert split(None, f"{other}::test_it") == other  # type: ignore[arg-type]
