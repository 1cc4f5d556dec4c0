"""The asyncio client: many requests at once over few connections, with a watch beside them."""

import asyncio

from kubernetes_asyncio import client, config, watch

NAMESPACE = "python-asyncio"


async def follow(core, start, count):
    """The names that a watch from `start` shows first."""
    names = []
    async with watch.Watch() as follower:
        stream = follower.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=20)
        async for event in stream:
            assert event["type"] == "ADDED", event
            names.append(event["object"].metadata.name)
            if len(names) == count:
                return names
    return names


async def main():
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace({"metadata": {"name": NAMESPACE}})
        start = (await core.list_namespaced_config_map(NAMESPACE, label_selector="batch")).metadata.resource_version
        follower = asyncio.create_task(follow(core, start, 100))
        maps = [{"metadata": {"generateName": "m-", "labels": {"batch": "1"}}, "data": {"n": str(n)}} for n in range(100)]
        made = await asyncio.gather(*(core.create_namespaced_config_map(NAMESPACE, body) for body in maps))
        names = {item.metadata.name for item in made}
        assert len(names) == 100, "generated names differ"
        seen = [name for name in await follower if name.startswith("m-")]
        assert names >= set(seen) and len(seen) == len(set(seen))
        await core.patch_namespaced_config_map(made[0].metadata.name, NAMESPACE, {"data": {"n": "changed"}})
        assert (await core.read_namespaced_config_map(made[0].metadata.name, NAMESPACE)).data == {"n": "changed"}
        await core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="batch=1")
        assert (await core.list_namespaced_config_map(NAMESPACE, label_selector="batch")).items == []


asyncio.run(main())
