"""Real Kubernetes clusters on one machine, for the tests: built, started and taken down by the
project itself.

`programs` finds or builds the programs, `controlplane` runs one control plane on loopback, `node` a
whole cluster with a kubelet in a network namespace, `daemon` runs `liqod` beside a cluster and
`federation` peers several of them.
"""
