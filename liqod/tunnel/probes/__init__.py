"""Probes through a tunnel, and answers to the other side's: all that reads what comes by one.

Sockets are handed to them, and verdicts come back as values. They know neither the network
namespace that they are in nor how it is made.

- :mod:`.messages`: Liqo's probe on the wire, and the values;
- :mod:`.echoes`: echoes of ICMP, which kernels answer;
- :mod:`.prober`: the probes of one tunnel;
- :mod:`.orders`: the messages between them and the parent;
- :mod:`.attendance`: one tunnel's probes in the process, as the parent ordered them.
"""
