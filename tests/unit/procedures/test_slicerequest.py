"""The offers of a provider with a slice, as the command line reports them."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.model.crossing import guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.procedures.slicerequest import offer
from liqod.resources import ResourceSlice


@pytest.mark.parametrize(
    ("status", "rules", "told"),
    [
        (
            {
                "resources": {"pods": "20", "cpu": "2"},
                "storageClasses": [{"storageClassName": "fast", "default": True}],
                "conditions": [
                    {
                        "type": "Resources",
                        "status": "Accepted",
                        "message": "ResourceSlice resources accepted; as it pleases",
                    }
                ],
            },
            guestrules.render(Rules(pod_security="baseline")),
            "cpu 2, pods 20; storage classes fast; pods must fit the Pod Security level baseline",
        ),
        # As Liqo says it.
        (
            {
                "resources": {"cpu": "2"},
                "conditions": [
                    {
                        "type": "Resources",
                        "status": "Accepted",
                        "message": "ResourceSlice resources accepted",
                    }
                ],
            },
            None,
            "cpu 2; no storage, ingress or load-balancer classes",
        ),
    ],
)
def test_what_is_offered_is_told(status, rules, told):
    notes = {} if rules is None else {labels.GUEST_RULES: rules}
    found = {"metadata": {"annotations": notes}, "status": status}
    assert offer(msgspec.convert(found, ResourceSlice)) == told
