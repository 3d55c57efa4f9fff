"""What a provider offers with a slice, as the command line tells it."""

import msgspec
import pytest

from liqod.procedures.slicerequest import offer
from liqod.resources import ResourceSlice


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "resources": {"pods": "20", "cpu": "2"},
                "storageClasses": [{"storageClassName": "fast", "default": True}],
                "conditions": [
                    {
                        "type": "Resources",
                        "status": "Accepted",
                        "message": "ResourceSlice resources accepted"
                        "; pods must fit the Pod Security level baseline",
                    }
                ],
            },
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
            "cpu 2; no storage, ingress or load-balancer classes",
        ),
    ],
)
def test_what_is_offered_is_told(status, told):
    assert offer(msgspec.convert({"status": status}, ResourceSlice)) == told
