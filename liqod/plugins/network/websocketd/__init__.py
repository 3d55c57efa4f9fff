"""The process that carries packets of this machine's tunnels in websockets over TLS.

``python -m liqod.plugins.network.websocketd SOCKET``, apart from the daemon, which it outlives. It
is asked at that socket (:mod:`.wanted`), is given the devices of its tunnels as open files, and
lives until it is ended, or has no tunnel any more. A failure ends its own tunnel alone:

- :mod:`.tunnel`: one tunnel, as was asked for last;
- :mod:`.packets`: the TUN device, and what of the other side's is a packet;
- :mod:`.tunnelsession`: one connection, once TLS has proved whose it is;
- :mod:`.tunneltls`: how TLS is spoken, and why it does not come to that, in words;
- :mod:`.carrier`: packets between the device and the newest session;
- :mod:`.dialing`, :mod:`.listening`: how a client and a server come by a session;
- :mod:`.proxying`: a way through an HTTP proxy.
"""
