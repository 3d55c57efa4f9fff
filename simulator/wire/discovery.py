"""API discovery: the groups, versions and resources that are served, and enough of OpenAPI.

The OpenAPI document says only that every kind's patch takes ``fieldValidation``, which is how
kubectl learns that the server validates and leaves its own schemas alone.
"""

from typing import Any

from simulator.catalog import Catalog, Resource

Json = dict[str, Any]

VERSION = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.0+liqod-simulator",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def answer(path: str, catalog: Catalog) -> Json | None:
    """The discovery document at a path, or None if the path is no discovery."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(catalog, group) for group in catalog.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in catalog.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(catalog, group)}
        case ["api", "v1"]:
            return _resources(catalog, "", "v1")
        case ["apis", group, version] if version in catalog.versions(group):
            return _resources(catalog, group, version)
        case ["openapi", "v3"]:
            return {
                "paths": {
                    path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in _roots(catalog)
                }
            }
        case ["openapi", "v3", *root] if "/".join(root) in _roots(catalog):
            return _openapi(catalog, root)
    return None


def _group(catalog: Catalog, group: str) -> Json:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in catalog.versions(group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(catalog: Catalog, group: str, version: str) -> Json:
    found: list[Json] = []
    for resource in catalog:
        if (resource.group, resource.version) == (group, version):
            found += _entries(resource)
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": sorted(found, key=lambda each: str(each["name"])),
    }


def _entries(resource: Resource) -> list[Json]:
    main: Json = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if resource.ephemeral else _VERBS,
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    below = [*resource.subresources, *(["status"] if resource.status else [])]
    return [main, *(_subresource(resource, each) for each in below)]


STREAMED = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
}


def _subresource(resource: Resource, name: str) -> Json:
    entry: Json = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["get", "patch", "update"],
    }
    match name:
        case "scale":
            entry |= {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        case "eviction":
            entry |= {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        case "binding":
            entry |= {"kind": "Binding", "verbs": ["create"]}
        case "token":
            entry |= {
                "group": "authentication.k8s.io",
                "version": "v1",
                "kind": "TokenRequest",
                "verbs": ["create"],
            }
        case "log":
            entry["verbs"] = ["get"]
        case "attach" | "exec" | "portforward":
            entry["verbs"] = ["create", "get"]
            entry["kind"] = STREAMED[name]
    return entry


def _roots(catalog: Catalog) -> list[str]:
    groups = [
        f"apis/{group}/{version}"
        for group in catalog.groups()
        for version in catalog.versions(group)
    ]
    return ["api/v1", *groups]


def _openapi(catalog: Catalog, root: list[str]) -> Json:
    group, version = ("", "v1") if root[0] == "api" else (root[1], root[2])
    paths: Json = {}
    for resource in catalog:
        if (resource.group, resource.version) != (group, version) or resource.ephemeral:
            continue
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        path = f"/{'/'.join(root)}{scope}/{resource.plural}/{{name}}"
        kind = {"group": group, "version": version, "kind": resource.kind}
        field = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        paths[path] = {
            "patch": {
                "parameters": [field],
                "x-kubernetes-group-version-kind": kind,
                "x-kubernetes-action": "patch",
                "responses": {"200": {"description": "OK"}},
            }
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
    }
