"""A reflector that is switched off reflects nothing but what remote pods cannot do without."""

import trio.testing

from liqod.apimachinery.kinds import CONFIG_MAPS
from tests.simulated.reflecting import SHOP, THERE
from tests.simulated.reflection.test_reflection import running


async def test_remote_pods_find_the_home_authority_though_config_maps_stay():
    async with running(text='[reflection]\ndisabled = ["configmaps"]\n') as (both, _):
        for name in ("kube-root-ca.crt", "conf"):
            made = {"metadata": {"name": name}, "data": {"a": "1"}}
            if await both.here.find(CONFIG_MAPS, name, SHOP) is None:
                await both.here.create(CONFIG_MAPS, made, SHOP)
        await both.comes(CONFIG_MAPS, "kube-root-ca.crt.rome")
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert await both.there.find(CONFIG_MAPS, "conf", THERE) is None
