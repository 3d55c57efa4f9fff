"""The zone of the set is put into Corefiles of all shapes, and taken out to the byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.clusterset import corefile, corefiletext
from liqod.model.clusterset.corefileedit import Added, added, removed
from liqod.model.clusterset.corefiletext import CorefileUnclear
from tests.unit.model.test_corefile import KUBEADM, LINE, OPTION, WANTED

SERVED = KUBEADM.replace(LINE, WANTED).replace(f"{WANTED} {{\n", f"{WANTED} {{\n{OPTION}")
K3S = """\
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
    }
    import /etc/coredns/custom/*.override
}
import /etc/coredns/custom/*.server
"""
SEVERAL = """\
(logged) {
    log . "{combined}" {
        class error # brace in a comment: {
    }
}
corp.example:53, other.example:53 {
    import logged
    forward . 10.0.0.1
}
tls://.:853 {
    kubernetes cluster.local
}
.:53 {
    import logged
    template ANY ANY "a \\"b\\" { c" {
        rcode NXDOMAIN
    }
\tkubernetes cluster.local\t# the cluster's own
    reload
}
"""
TWO_LINES = "corp.example,\n.:53 {\n  kubernetes corp.example in-addr.arpa {\n  }\n}"
HOME = (
    "cluster.local {\n    kubernetes cluster.local\n}\n. {\n    kubernetes a.example {\n    }\n}\n"
)
GOOD = {
    "kubeadm": KUBEADM,
    "with the line ends of another system": KUBEADM.replace("\n", "\r\n"),
    "k3s": K3S,
    "several servers, snippets, quotes, comments and no block": SEVERAL,
    "keys on two lines, an empty block and no end of the last line": TWO_LINES,
    "a server of another zone with the plugin": HOME,
    "the nearest zone": "local {\n kubernetes cluster.local\n}\n. {\n forward . 9.9.9.9\n}\n",
    "a root that is no zone of the set": "dns://.:1053 {\n kubernetes cluster.local.\n}\n",
}


def test_kubeadms_gets_what_the_page_has():
    assert added(KUBEADM) == Added(SERVED, "option")


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_it_serves_the_zone_and_comes_back_to_the_byte(text: str):
    found = added(text)
    assert corefile.read(found.text).directive == corefile.OPTION
    assert found.put is not None
    assert removed(found.text, found.put) == text
    kept = iter(found.text)
    assert all(char in kept for char in text), "something is written anew"


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_second_time_changes_nothing(text: str):
    found = added(text)
    assert added(found.text) == Added(found.text, None)
    assert removed(text, "block") == removed(text, "option") == text


def test_it_goes_to_the_server_that_is_asked():
    found = added(SEVERAL).text
    assert found.index("clusterset.local") > found.index("template ANY")
    block = "\tkubernetes cluster.local clusterset.local {\t# the cluster's own\n"
    assert f"{block}\t    multicluster clusterset.local\n\t}}\n    reload" in found
    assert "kubernetes a.example clusterset.local {" in added(HOME).text


BAD = {
    "empty": ("", "no server takes queries"),
    "no server of the root": ("cluster.local {\n kubernetes cluster.local\n}", "no server takes"),
    "without the plugin": (".:53 {\n forward . 9.9.9.9\n}\n", "stands 0 times"),
    "in a snippet": ("(k) {\n kubernetes cluster.local\n}\n. {\n import k\n}\n", "the snippet (k)"),
    "twice": (". {\n kubernetes a\n kubernetes b\n}\n", "stands 2 times"),
    "two servers": (".:53 {\n kubernetes a\n}\n.:1053 {\n kubernetes a\n}\n", "2 servers"),
    "no zone": (". {\n kubernetes {\n }\n}\n", "names no zone"),
    "only reverse zones": (". {\n kubernetes in-addr.arpa\n}\n", "names no zone"),
    "a zone of the environment": (". {\n kubernetes {$ZONE}\n}\n", "the environment tells"),
    "a server of the environment": ("{$ZONE} {\n kubernetes a\n}\n", "named by the environment"),
    "the zone alone": (KUBEADM.replace(LINE, WANTED), "but not the option"),
    "the option for other zones": (
        KUBEADM.replace("       ttl 30\n", "       multicluster other.example\n"),
        "has multicluster in its block",
    ),
    "an import in the plugin": (KUBEADM.replace("ttl 30", "import x"), "has import in its block"),
    "all on one line": (". {\n kubernetes a { ttl 30 }\n}\n", "another shape"),
    "a block in the block": (". {\n kubernetes a {\n x {\n }\n }\n}\n", "another shape"),
    "not closed": (KUBEADM.rstrip().removesuffix("}"), "not closed"),
    "closed twice": (f"{KUBEADM}}}\n", "stands for itself"),
    "quotes without an end": (f'{KUBEADM.rstrip()[:-1]}    log "x\n}}\n', "not closed"),
    "a server without a block": (".:53\nkubernetes cluster.local\n", "has no block"),
    "given to a server": (
        f"{KUBEADM}clusterset.local {{\n forward . 9.9.9.9\n}}\n",
        "is given to s",
    ),
    "a lone carriage return": (KUBEADM.replace("errors\n", "errors\r"), "characters"),
    "a zero": (KUBEADM.replace("errors", "err\0rs"), "characters"),
}


@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD)
def test_one_that_is_not_understood_is_refused_with_the_reason(text: str, says: str):
    with pytest.raises(CorefileUnclear, match=says.replace("(", r"\(").replace(")", r"\)")):
        added(text)


def test_a_file_that_is_imported_may_have_given_the_zone_away():
    with pytest.raises(CorefileUnclear, match="given to server block"):
        added(K3S, ["clusterset.local:53 {\n forward . 10.96.0.77\n}\n"])
    assert added(K3S, ["example.org:53 {\n forward . 10.96.0.77\n}\n"]).put == "option"


def test_what_others_have_changed_meanwhile_stays():
    found = added(SEVERAL)
    more = found.text.replace("    reload\n", "    reload\n    cache 30\n")
    assert removed(more, "block") == SEVERAL.replace("    reload\n", "    reload\n    cache 30\n")
    option = "\t    multicluster clusterset.local\n"
    with_another = found.text.replace(option, f"{option}\t    ttl 5\n")
    left = removed(with_another, "block")
    assert "ttl 5" in left
    assert "clusterset" not in left
    assert added(left).put == "option"  # its block is not ours any more


def test_half_of_it_is_taken_out_too():
    assert removed(SERVED.replace(OPTION, ""), "option") == KUBEADM
    assert removed(SERVED.replace(WANTED, LINE), "option") == KUBEADM


def test_one_that_became_unclear_is_not_taken_apart():
    with pytest.raises(CorefileUnclear):
        removed(f"{SERVED}}}\n", "option")


WORDS = st.sampled_from(
    [
        *("{", "}", "\n", "\r\n", " ", "\t", "#", '"', "\\", ",", ".:53", "kubernetes", "ttl"),
        *("cluster.local", "clusterset.local", "multicluster", "in-addr.arpa", "import", "(a)"),
        *("forward", "{$X}"),
    ]
)


@given(st.lists(WORDS, max_size=40).map(" ".join), st.booleans())
def test_whatever_the_text_it_is_refused_or_comes_back(text: str, framed: bool):
    whole = f".:53 {{\n kubernetes cluster.local {{\n {text}\n }}\n}}\n" if framed else text
    try:
        found = added(whole)
    except CorefileUnclear:
        return
    if found.put is not None:
        assert removed(found.text, found.put) == whole


@given(st.text(alphabet='ab{}#"\\ \n\r\t,', max_size=60))
def test_words_have_their_places(text: str):
    for word in corefiletext.words(text):
        assert text.count("\n", 0, word.start) == word.line
        assert word.text == text[word.start : word.end] or text[word.start] == '"'
