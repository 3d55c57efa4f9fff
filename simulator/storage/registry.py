"""Writes of one cluster: what ``k8s.io/apiserver``'s generic registry does, without the wire.

Handlers and in-process controllers both come through here. Everything is synchronous: what may
take time (admission webhooks) happens before, and a write that was prepared against an older
state says so by :class:`ApiError` 409.
"""

from typing import Any

from liqod.kube import times
from simulator.catalog import Catalog, Resource
from simulator.kinds import strategy_of
from simulator.storage import layout, schema
from simulator.storage.allocation import Allocations
from simulator.storage.storage import Item, Storage
from simulator.texts import check_labels, check_name, new_uid, suffix
from simulator.wire import failures
from simulator.wire.failures import ApiError, Cause

Json = dict[str, Any]

_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


class Registry:
    """The objects of a cluster and the rules for changing them.

    Args:
        storage: where objects are.
        catalog: which kinds there are.
        service_cidr: where cluster IPs come from.
        service_cidr6: where those of IPv6 do; empty in a cluster of one family.
    """

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        *,
        service_cidr: str = "10.96.0.0/16",
        service_cidr6: str = "",
    ) -> None:
        self.storage = storage
        self.catalog = catalog
        self.allocations = Allocations(storage, service_cidr, service_cidr6)

    # What strategies may ask:

    def find(self, qualified: str, namespace: str, name: str) -> Item | None:
        """A stored object, or None."""
        return self.storage.of(qualified).get(namespace, name)

    @property
    def families(self) -> list[str]:
        """The address families of the cluster, the first one first."""
        return self.allocations.families

    def allocate_address(self, family: str, wanted: str = "") -> str:
        """As :meth:`simulator.storage.allocation.Allocations.address`."""
        return self.allocations.address(family, wanted)

    def allocate_port(self, wanted: int = 0) -> int:
        """As :meth:`simulator.storage.allocation.Allocations.port`."""
        return self.allocations.port(wanted)

    # Reads:

    def get(self, resource: Resource, namespace: str, name: str) -> Item:
        """A stored object.

        Raises:
            ApiError: 404.
        """
        found = self.find(resource.qualified, namespace, name)
        if found is None:
            raise failures.not_found(resource, name)
        return found

    # Creation:

    def prepare(self, resource: Resource, namespace: str, obj: Json) -> None:
        """Bring a new object to the state in which admission webhooks see it, in place.

        Raises:
            ApiError: 400, 403, 404: the object, its namespace or its kind will not do.
        """
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            meta = obj["metadata"] = {}
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise failures.bad_request(
                    "the namespace of the provided object does not match the namespace sent on"
                    " the request"
                )
        elif meta.pop("namespace", ""):
            raise failures.bad_request("namespace specified on a non-namespaced object")
        self._check_namespace(resource, namespace, meta.get("name", ""))
        if resource.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise failures.forbidden(resource, meta.get("name", ""), why)
        self.normalise(resource, obj)
        strategy_of(resource).admit(obj, self)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.find("namespaces", "", namespace)
        if found is None:
            details = {"name": namespace, "kind": "namespaces"}
            message = f'namespaces "{namespace}" not found'
            raise ApiError(404, "NotFound", message, details=details)
        if b'"deletionTimestamp"' in found.raw and found.decode()["metadata"].get(
            "deletionTimestamp"
        ):
            message = f"namespace {namespace} is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": message,
                "field": "metadata.namespace",
            }
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            raise failures.forbidden(resource, name, why, [cause])

    def normalise(self, resource: Resource, obj: Json) -> list[str]:
        """Defaults and pruning, in place; returns the unknown fields that were dropped."""
        dropped: list[str] = []
        if resource.schema is not None:
            dropped = schema.prune(obj, resource.schema)
            schema.fill(obj, resource.schema)
        strategy_of(resource).defaults(obj)
        return dropped

    def create(self, resource: Resource, namespace: str, obj: Json, *, dry: bool = False) -> Item:
        """Store a new, prepared object; the answer is what is stored.

        Raises:
            ApiError: 409 if it exists, 422 if it is not valid, 4xx of its namespace.
        """
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise failures.bad_request("resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"][:58] + suffix()
        name = meta.get("name", "")
        self._check_namespace(resource, namespace, name)
        self.normalise(resource, obj)
        for key in _SERVER_OWNED:
            meta.pop(key, None)
        strategy_of(resource).create(resource, obj, self)
        if resource.schema is not None:
            schema.fill(obj, resource.schema)
        self._validate(resource, obj, None)
        if self.find(resource.qualified, namespace, name) is not None:
            raise failures.already_exists(resource, name)
        meta["uid"] = new_uid()
        meta["creationTimestamp"] = times.now()
        if resource.generation:
            meta["generation"] = 1
        return self._write(resource, obj, dry)

    # Updates:

    def update(
        self,
        resource: Resource,
        old: Item,
        new: Json,
        *,
        subresource: str = "",
        dry: bool = False,
        force: bool = False,
        patched: bool = False,
    ) -> Item:
        """Replace an object that was read as ``old``.

        Args:
            patched: whether a patch made ``new``: another UID in it is then not a precondition
                that fails but a change of what cannot change.
            subresource: ``status``, or another that is written as a whole object.
            force: for the server's own sub-resources, which may write what users may not.

        Raises:
            ApiError: 409 when the object has changed since, or is not the one meant; 422.
        """
        before = old.decode()
        meta = new.setdefault("metadata", {})
        self._check_identity(resource, old, before["metadata"], meta, patched)
        self.normalise(resource, new)
        meta["namespace"] = old.namespace
        for key in ("name", "namespace", "generateName", *_SERVER_OWNED):
            if before["metadata"].get(key):
                meta[key] = before["metadata"][key]
            else:
                meta.pop(key, None)
        strategy = strategy_of(resource)
        if subresource == "status":
            strategy.update_status(resource, new, before)
            meta = new["metadata"]
        elif subresource:
            strategy.update_part(resource, subresource, new, before)
            meta = new["metadata"]
        elif not force:
            strategy.update(resource, new, before, self)
        if resource.generation and layout.desired(new, resource) != layout.desired(
            before, resource
        ):
            meta["generation"] = before["metadata"].get("generation", 0) + 1
        self._validate(resource, new, before, fully=not force and subresource in ("", "status"))
        current = self.find(resource.qualified, old.namespace, old.name)
        if current is None or current.version != old.version:
            raise failures.conflict(resource, old.name)
        meta["resourceVersion"] = str(old.version)
        if layout.ordered(new, resource) == before:
            return old
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and layout.no_grace(meta):
            return self._erase(resource, new, dry)
        return self._write(resource, new, dry)

    def _check_identity(
        self, resource: Resource, old: Item, known: Json, meta: Json, patched: bool
    ) -> None:
        if meta.get("name", old.name) != old.name:
            raise failures.bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL"
                f" ({old.name})"
            )
        if (meta.get("namespace") or old.namespace) != old.namespace:
            raise failures.bad_request(
                "the namespace of the object does not match the namespace on the URL"
            )
        if patched and meta.get("uid") != old.uid:
            cause = failures.immutable("metadata.uid", meta.get("uid"))
            raise failures.invalid(resource, old.name, [cause])
        if meta.get("uid") and meta["uid"] != old.uid:
            why = (
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta:"
                f" {old.uid}"
            )
            raise failures.conflict(resource, old.name, why)
        if meta.get("resourceVersion") and meta["resourceVersion"] != str(old.version):
            raise failures.conflict(resource, old.name)
        added = set(meta.get("finalizers") or ()) - set(known.get("finalizers") or ())
        if known.get("deletionTimestamp") and added:
            listed = ", ".join(f'"{each}"' for each in sorted(added))
            cause = failures.forbidden_field(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers []string{{{listed}}}",
            )
            raise failures.invalid(resource, old.name, [cause])

    def _validate(
        self, resource: Resource, obj: Json, old: Json | None, *, fully: bool = True
    ) -> None:
        meta = obj["metadata"]
        causes: list[Cause] = []
        if old is None:
            causes += check_name(resource, meta.get("name", ""))
        if old is None or meta.get("labels") != old["metadata"].get("labels"):
            causes += check_labels(meta.get("labels"))
        for index, owner in enumerate(meta.get("ownerReferences") or ()):
            for key in ("apiVersion", "kind", "name", "uid"):
                if not owner.get(key):
                    path = f"metadata.ownerReferences[{index}].{key}"
                    causes.append(failures.required(path, "must not be empty"))
        if resource.schema is not None:
            causes += schema.validate(obj, resource.schema, old)
        if fully:
            causes += strategy_of(resource).validate(obj, old)
        if causes:
            raise failures.invalid(resource, meta.get("name", ""), causes)

    # Storing:

    def _write(self, resource: Resource, obj: Json, dry: bool) -> Item:
        obj = layout.ordered(obj, resource)
        if dry:
            return layout.unsaved(obj)
        return self.storage.put(resource.qualified, obj)

    def _erase(self, resource: Resource, obj: Json, dry: bool) -> Item:
        obj = layout.ordered(obj, resource)
        if dry:
            return layout.unsaved(obj)
        return self.storage.remove(resource.qualified, obj)

    def touch(self, resource: Resource, obj: Json, *, dry: bool = False) -> Item:
        """Store an object as it is: for the server's own steps (see ``deletion``)."""
        return self._write(resource, obj, dry)

    def erase(self, resource: Resource, obj: Json, *, dry: bool = False) -> Item:
        """Remove an object; returns its last state."""
        return self._erase(resource, obj, dry)
