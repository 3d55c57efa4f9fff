"""A package's kind, granted to consumers of a real provider that has not the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from liqod import install
from liqod.apimachinery.kinds import ADMISSION_POLICIES, CUSTOM_RESOURCES
from liqod.errors import Forbidden, NotFound
from liqod.install.plugingrants import Declared, lent
from liqod.kube.client import Client
from liqod.plugins.contracts import AdmissionPolicy, Validation
from liqod.provider.policies import policycontroller
from tests.cluster.forging import SLICE_USER, as_user
from tests.cluster.providing import Milan, provider
from tests.cluster.test_lending import quiet
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, Lender, lender
from tests.unit.plugins.test_overreach import GADGETS, GOOD

pytestmark = [pytest.mark.cluster, pytest.mark.install]

Json = dict[str, Any]
SMALL = "a consumer's gadget is small"
DEFINITION: Json = {
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": GADGETS.group,
        "scope": "Namespaced",
        "names": {
            "kind": "Gadget",
            "plural": "gadgets",
            "singular": "gadget",
            "listKind": "GadgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
REFUSED: tuple[tuple[Json, str], ...] = (
    ({"metadata": {"finalizers": ["a.io/stay"]}}, "may not add finalizers"),
    ({"metadata": {"labels": {"a.io/b": "x"}}}, "not for guests: a.io/b"),
    ({"metadata": {"annotations": {"a.io/b": "x"}}}, "not for guests: a.io/b"),
    ({"spec": {"size": 9}}, SMALL),
)


@pytest.fixture(scope="module")
def milan() -> Iterator[Milan]:
    yield from provider("", _lend)


async def _lend(made: Lender) -> None:
    await made.admin.create(CUSTOM_RESOURCES, DEFINITION)
    assert GOOD.grant is not None
    small = AdmissionPolicy(
        name="gadgets",
        validations=(Validation("object.?spec.?size.orValue(0) < 9", SMALL),),
    )
    grant = msgspec.structs.replace(GOOD.grant, policy=small)
    of = Declared(msgspec.structs.replace(GOOD, grant=grant), "liqod-gadgets 1")
    options = install.Options(cluster_id="milan", plugins=tuple(lent(of)))
    await install.install(made.admin, options, quiet)

    async def refused() -> bool:
        """True once the API server evaluates the policy and knows the rights."""
        obj = {"metadata": {"name": "early"}, "spec": {"size": 9}}
        try:
            await as_user(made, SLICE_USER, "POST", GADGETS, obj)
        except (Forbidden, NotFound) as error:
            return SMALL in str(error)
        await made.admin.delete(GADGETS, "early", SHOP)
        return False

    await eventually(refused, seconds=30)


@pytest.fixture
async def lending(milan: Milan):
    async with Client(milan.admin) as admin, lender(admin, milan.daemon) as made:
        yield made


async def test_a_package_s_kind_is_held_to_what_guests_may_say_and_to_its_own_policy(
    lending: Lender,
):
    """An upgrade by somebody who has not the package changes nothing of it."""
    await install.install(lending.admin, install.Options(), quiet)
    for number, (obj, why) in enumerate(REFUSED):
        named = {**obj, "metadata": {"name": f"no-{number}", **obj.get("metadata", {})}}
        with pytest.raises(Forbidden, match=why):
            await as_user(lending, SLICE_USER, "POST", GADGETS, named)
    own = {"metadata": {"name": "own", "labels": {"app": "shop"}}, "spec": {"size": 8}}
    await as_user(lending, SLICE_USER, "POST", GADGETS, own)
    with pytest.raises(Forbidden, match=SMALL):
        await as_user(lending, SLICE_USER, "PATCH", GADGETS, {"spec": {"size": 9}}, name="own")
    with pytest.raises(Forbidden):
        await as_user(lending, SLICE_USER, "POST", GADGETS, own, namespace="default")


async def test_the_provider_s_daemon_reads_the_bounds_with_the_rights_that_it_has(lending: Lender):
    found = await lending.context.client.list(
        ADMISSION_POLICIES, policycontroller.OURS, decode=policycontroller.InstalledPolicy
    )
    assert policycontroller.bounds(found) == {"count/gadgets.example.com": "100"}
