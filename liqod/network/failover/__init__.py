"""One of several machines has the tunnels of this cluster; another takes over when it is gone.

    messages   what candidates say to each other, authenticated
    election   who is the gateway, as a pure state machine
    responder  answers other candidates, from a thread of its own
    candidate  one machine's part: it asks, answers, and writes the Lease
    fence      takes a tunnel's packets out, also where no daemon lives any more
    holding    how long the kernel was told to let them pass, and when it is told again, pure

Everything here begins with a second candidate: a gateway that is alone writes no Lease again, asks
nobody, and is never fenced.
"""
