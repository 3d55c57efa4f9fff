"""One of several machines has the tunnels of this cluster; another takes over when it is gone.

    candidatemessages questions and answers between candidates, authenticated
    election          elects the gateway, as a pure state machine
    responder         answers other candidates, from a thread of its own
    membership        the daemon's side: has this machine be a candidate, or the gateway alone
    lease             the Lease, which the daemon reads and writes
    fence             takes a tunnel's packets out, also where no daemon lives any more
    endpointhandover  where the gateway observes a peer, for those that may take over

The machine decides (:mod:`liqod.network.machine.candidate`); the daemon has the Lease. Everything
here begins with a second candidate: a gateway that is alone writes no Lease again, asks nobody, and
is never fenced.
"""
