"""The process that carries packets of this machine's tunnels in websockets over TLS.

``python -m liqod.tunnel SOCKET``, apart from the daemon, which it outlives. It takes requests at
that socket (:mod:`.wanted`), and lives until it is ended, or has no tunnel any more. It reads what
strangers send, and so has no right: its parent hands it each descriptor, and may be away from then
on, when tunnels go on, dial anew and accept, and new ones and other marks have to wait for it. A
failure ends its own tunnel alone:

- :mod:`.confinement`: the rights that it gives up;
- :mod:`.dialsockets`: the sockets by which a tunnel dials;
- :mod:`.tunnel`: one tunnel, as requested last;
- :mod:`.packets`: the TUN device, and the check of the other side's packets;
- :mod:`.tunnelsession`: one connection, once TLS has proved its owner;
- :mod:`.tunneltls`: the TLS settings, and the reason a handshake failed, in words;
- :mod:`.carrier`: packets between the device and the newest session;
- :mod:`.dialing`, :mod:`.listening`: how a client and a server come by a session;
- :mod:`.proxying`: a connection through an HTTP proxy.
"""
