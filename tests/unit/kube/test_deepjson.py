"""JSON taken apart without recursion says what a decoder says, for whatever a decoder can read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.kinds import PODS
from liqod.errors import ProtocolError
from liqod.kube.cache.deepjson import elements, key_of, members
from liqod.kube.pages import read_page

TEXT = st.text(alphabet='a"\\,:[]{} \n\u20ac', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
STYLE = st.sampled_from([(",", ":"), (" , ", " : "), (",\n", ":\t")])


@given(st.dictionaries(TEXT, JSON, max_size=4), STYLE, st.booleans())
def test_members(value, style, ascii_only):
    text = json.dumps(value, separators=style, ensure_ascii=ascii_only).encode()
    found = {json.loads(b'"%b"' % name): json.loads(part) for name, part in members(text)}
    assert found == value


@given(st.lists(JSON, max_size=4), STYLE)
def test_elements(value, style):
    text = json.dumps(value, separators=style).encode()
    assert [json.loads(part) for part in elements(text)] == value


def test_the_key_of_a_deep_object():
    deep = b"[" * 20_000 + b"]" * 20_000
    meta = b'{"labels":{"name":"no"},"name":"yes","x":%b,"namespace":"there"}' % deep
    assert key_of(b'{"spec":%b,"metadata":%b}' % (deep, meta)) == ("there", "yes")


@pytest.mark.parametrize("data", [b'{"metadata":{"name":3}}', b'{"metadata":{"name":{}}}'])
def test_nonsense(data):
    with pytest.raises(ProtocolError):
        key_of(data)


async def test_a_page_with_a_deep_object():
    deep = b'{"metadata":{"name":"deep","namespace":"a"},"spec":%b%b}' % (b"[" * 9999, b"]" * 9999)
    flat = b'{"metadata":{"name":"flat","namespace":"a"}}'
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":'
    page = await read_page(head + b"[" + deep + b"," + flat + b"]}", PODS)
    assert [item.key for item in page.found] == [("a", "flat")]
    assert page.skipped == (("a", "deep"),)
    assert (page.resource_version, page.continue_token) == ("7", "more")
