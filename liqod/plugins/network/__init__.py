"""The tunnel backends that liqod brings: WireGuard, bare VXLAN, and packets over TLS.

Each is one module; what two of them need is beside them: interfaces by rtnetlink
(:mod:`.rtnetlink`), processes that outlive the daemon (:mod:`.processes`), the path to one of
several endpoints (:mod:`.endpointselection`).
"""
