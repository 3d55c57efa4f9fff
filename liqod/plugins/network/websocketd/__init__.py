"""The process that carries one tunnel's packets in a websocket over TLS, apart from the daemon.

``python -m liqod.plugins.network.websocketd INTERFACE FOLDER`` makes the interface in the network
namespace that it is begun in, is told the rest by a Unix socket (:mod:`.control`), and lives until
it is ended or its interface is deleted. It imports little, since there is one for each peer:

- :mod:`.packets`: the TUN device, and what of the other side's is a packet;
- :mod:`.session`: one connection, once TLS has proved whose it is;
- :mod:`.tls`: how TLS is spoken, and why it does not come to that, in words;
- :mod:`.carrier`: packets between the device and the newest session;
- :mod:`.dialing`, :mod:`.listening`: how a client and a server come by a session;
- :mod:`.hello`, :mod:`.proxying`: reading of strangers' bytes: a caller's name, a proxy's answer.
"""
