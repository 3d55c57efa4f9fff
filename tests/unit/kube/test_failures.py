"""The text of a refusal is kept word for word, as far as anybody would read."""

import pytest

from liqod.kube.failures import MAX_MESSAGE, ApiStatus, error_of, read_status


@pytest.mark.parametrize("code", [401, 403, 404, 409, 410, 418, 422, 429, 503])
def test_no_server_makes_us_keep_a_text_of_any_length(code):
    said = b'{"code":%d,"message":"%b"}' % (code, b"no " * 20000)
    text = str(error_of(read_status(said, code)))
    assert text.removeprefix("unexpected answer 418: ").startswith("no no no")
    assert len(text) <= MAX_MESSAGE + 30


def test_disruption_budgets_of_any_number_are_cut_too():
    cause = b'{"reason":"DisruptionBudget","message":"The disruption budget web needs 1"}'
    details = b'{"causes":[%b]}' % b",".join([cause] * 1000)
    said = b'{"code":429,"message":"no","details":%b}' % details
    assert len(str(error_of(read_status(said, 429)))) <= MAX_MESSAGE


def test_what_is_short_is_said_word_for_word():
    assert str(error_of(ApiStatus(code=403, message="may not"))) == "may not"
