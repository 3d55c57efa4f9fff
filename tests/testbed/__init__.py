"""Real Kubernetes clusters on one machine, for the tests: built, started and taken down here.

- `programs`, `toolchain`: find or build the programs, from the Go modules in `go/`.
- `controlplane`, `processes`, `pki`, `api`, `workspace`: one control plane on loopback.
- `node`, `machine`, `image`: a whole cluster with a kubelet, in namespaces of its own.
- `daemon`, `federation`, `fakenodes`, `workloads`: liqod beside clusters, and what it offloads.
- `clusters`, `inventory`: three clusters that each test leaves as it found them.
- `otherwise`: a daemon of another version, to be a peer of this one.
- `witness`: every pod that ever was in a namespace, while things break.
- `relay`, `relays`, `wirefaults`: an API server whose traffic breaks on purpose.
- `troubled`, `latency`: one bad provider of three, and how soon the others' pods start.
- `fixtures`, `evidence`, `suite`: how pytest and `make test` use all that.

By hand, `python -m tests.testbed.programs` builds and `python -m tests.testbed.suite` tests.
"""
