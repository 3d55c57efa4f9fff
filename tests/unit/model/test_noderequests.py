"""The node that a request to a kubelet's API is for, and the permission that it needs."""

import pytest

from liqod.errors import Invalid, NotFound
from liqod.model.crossing.noderequests import NodeRequest, metrics_path, node_request

FORWARDED = "x-forwarded-uri"


@pytest.mark.parametrize(
    ("page", "subresources"),
    [
        ("/metrics/resource", ("metrics",)),
        ("/metrics/cadvisor", ("metrics",)),
        ("/stats/summary", ("stats",)),
        ("/pods", ("pods", "proxy")),
        ("/runningpods", ("pods", "proxy")),
        ("/healthz", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/logs/messages", ("log",)),
    ],
)
def test_each_page_has_its_right(page: str, subresources: tuple[str, ...]) -> None:
    """As in `pkg/kubelet/server/auth.go` with KubeletFineGrainedAuthz."""
    assert node_request(page, {}) == NodeRequest(page, "", subresources)
    assert node_request(f"{page}/", {}) == NodeRequest(page, "", subresources)
    assert node_request(f"/virtualnodes/milan{page}", {}) == NodeRequest(
        page, "milan", subresources
    )


@pytest.mark.parametrize("name", ["milan", "milan:10270", "https:milan:", "https:milan:10270"])
def test_the_api_server_says_which_node_it_was_asked_for(name: str) -> None:
    headers = {FORWARDED: f"/api/v1/nodes/{name}/proxy/stats/summary?x=1"}
    found = node_request("/stats/summary", headers)
    assert found is not None
    assert found.node == "milan"


def test_the_annotation_leads_there() -> None:
    found = node_request(metrics_path("milan.x"), {})
    assert found == NodeRequest("/metrics/resource", "milan.x", ("metrics",))


@pytest.mark.parametrize("path", ["/exec/shop/web/web", "/containerLogs/a/b/c", "/", "", "/metric"])
def test_what_is_asked_of_pods_is_left_to_others(path: str) -> None:
    assert node_request(path, {}) is None


@pytest.mark.parametrize("path", ["/virtualnodes/milan", "/virtualnodes/milan/exec/shop/web/web"])
def test_no_pod_is_reached_by_a_path_that_names_a_node(path: str) -> None:
    with pytest.raises(NotFound):
        node_request(path, {})


@pytest.mark.parametrize("name", ["..", "a b", "A", "%2e%2e", "x" * 300])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(Invalid):
        node_request(f"/virtualnodes/{name}/pods", {})
    with pytest.raises(Invalid):
        node_request("/pods", {FORWARDED: f"/api/v1/nodes/{name}/proxy/pods"})
    for other in (f"/api/v1/namespaces/{name}/proxy", f"/x/api/v1/nodes/{name}/proxy/pods"):
        found = node_request("/pods", {FORWARDED: other})
        assert found is not None
        assert not found.node
