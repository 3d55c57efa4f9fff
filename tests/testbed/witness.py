"""Watches pods while things break: every pod that ever was in a namespace, not only the last.

A thread follows the namespace with the administrator's rights and the standard library alone, so
that what is under test has no part in what is seen.
"""

from __future__ import annotations

import json
import threading
import time
from types import TracebackType
from typing import Any, Self

from tests.testbed.api import Api
from tests.testbed.errors import TestbedError


class Witness:
    """Record of the pods of a namespace between entry and exit.

    Attributes:
        uids: the UIDs of all pods of each name, in the order in which they came.
        started: when the first container of each pod (by UID) was first seen to run.
        restarted: the UIDs of pods whose container started at another time later on.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._ended = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._follow, name=f"witness of {namespace}")
        self.uids: dict[str, list[str]] = {}
        self.started: dict[str, str] = {}
        self.restarted: set[str] = set()
        self._story: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        listed = self._api.get(self._path)
        for pod in listed["items"]:
            self._see(pod)
        self._version = listed["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure and kind is None:
            raise TestbedError(f"the witness of {self._path} saw no more: {self._failure}")

    def replaced(self) -> dict[str, list[str]]:
        """Returns the events of each name that more than one pod has had."""
        return {name: self.story(name) for name, uids in self.uids.items() if len(uids) > 1}

    def story(self, name: str) -> list[str]:
        """Returns the events of the pods of one name, a line for each."""
        return [f"{self._path}/{name} at {told}" for of, told in self._story if of == name]

    def _follow(self) -> None:
        try:
            while not self._ended.is_set():
                query = f"watch=1&timeoutSeconds=1&resourceVersion={self._version}"
                status, body = self._api.raw("GET", f"{self._path}?{query}", timeout=20)
                if status != 200:
                    raise TestbedError(f"{status} {body[:200]!r}")
                for line in body.splitlines():
                    self._hear(json.loads(line))
        except (OSError, TestbedError) as error:
            self._failure = str(error)

    def _hear(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise TestbedError(str(event["object"]))
        self._version = event["object"]["metadata"]["resourceVersion"]
        self._see(event["object"])
        self._note(event["type"], event["object"])

    def _note(self, what: str, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        owners = [owner["uid"][:8] for owner in meta.get("ownerReferences", ())]
        told = (
            f"{time.strftime('%H:%M:%S')} {what} {meta['uid'][:8]} of {owners}, made at "
            f"{meta['creationTimestamp']}, to go at {meta.get('deletionTimestamp')}, "
            f"{(pod.get('status') or {}).get('phase')}"
        )
        self._story.append((meta["name"], told))

    def _see(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        known = self.uids.setdefault(meta["name"], [])
        if meta["uid"] not in known:
            known.append(meta["uid"])
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            at = (one.get("state", {}).get("running") or {}).get("startedAt")
            if at and self.started.setdefault(meta["uid"], at) != at:
                self.restarted.add(meta["uid"])
