"""The process that carries packets of this machine's tunnels in websockets over TLS.

``python -m liqod.tunnel SOCKET``, apart from the daemon, which it outlives. It takes requests at
that socket (:mod:`.wanted`), gets the devices of its tunnels as open files, and lives until it is
ended, or has no tunnel any more. A failure ends its own tunnel alone:

- :mod:`.tunnel`: one tunnel, as requested last;
- :mod:`.packets`: the TUN device, and the check of the other side's packets;
- :mod:`.tunnelsession`: one connection, once TLS has proved its owner;
- :mod:`.tunneltls`: the TLS settings, and the reason a handshake failed, in words;
- :mod:`.carrier`: packets between the device and the newest session;
- :mod:`.dialing`, :mod:`.listening`: how a client and a server come by a session;
- :mod:`.proxying`: a connection through an HTTP proxy.
"""
