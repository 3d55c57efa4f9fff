"""The process that reads the bytes of strangers: it has no right of its own.

``python -m liqod.tunnel SOCKET``, apart from the daemon, which it outlives. It takes requests at
that socket (:mod:`.wanted`), and lives until it is ended, or has nothing to do any more. Its parent
hands it each descriptor. It carries packets of this machine's tunnels in websockets over TLS, for
which the parent may be away: tunnels go on, dial anew and accept, and new ones and other marks have
to wait for it. All else lasts as long as the connection by which it was ordered. A failure ends its
own tunnel alone:

- :mod:`.confinement`: the rights that it gives up;
- :mod:`.dialsockets`: the sockets by which a tunnel dials;
- :mod:`.tunnel`: one tunnel, as requested last;
- :mod:`.packets`: the TUN device, and the check of the other side's packets;
- :mod:`.tunnelsession`: one connection, once TLS has proved its owner;
- :mod:`.tunneltls`: the TLS settings, and the reason a handshake failed, in words;
- :mod:`.carrier`: packets between the device and the newest session;
- :mod:`.dialing`, :mod:`.listening`: how a client and a server come by a session;
- :mod:`.proxying`: a connection through an HTTP proxy;
- :mod:`.leading`: a caller of Liqo's proxy, who is led to the API server;
- :mod:`.probes`: the probes of tunnels.
"""
