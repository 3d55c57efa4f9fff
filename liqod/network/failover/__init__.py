"""One of several machines has the tunnels of this cluster; another takes over when it is gone.

    messages          questions and answers between candidates, authenticated
    election          elects the gateway, as a pure state machine
    responder         answers other candidates, from a thread of its own
    localcandidate    this machine as a candidate: its name, its sockets
    candidate         one machine's part: it asks, answers, and writes the Lease
    membership        has this machine be a candidate, or the gateway alone
    fence             takes a tunnel's packets out, also where no daemon lives any more
    endpointhandover  where the gateway observes a peer, for those that may take over

Everything here begins with a second candidate: a gateway that is alone writes no Lease again, asks
nobody, and is never fenced.
"""
