"""A name server of a few records, in a thread."""

from __future__ import annotations

import socket
import threading
from collections import Counter

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import dns.zone

SOA = "ns.example.org. admin.example.org. 1 60 60 60 7"
"""The SOA record: negative answers are valid for seven seconds."""


class NameServer:
    """Answers for ``example.org.`` on loopback.

    Attributes:
        records: by name and kind: TTL and texts. Change them as you like.
        secure: whether the bit AD is set where it is asked for.
        silent: whether it answers nothing.
        failing: names that it answers by SERVFAIL.
        asked: how often each name was asked for.
        address: ``127.0.0.1:PORT``.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], tuple[int, list[str]]] = {}
        self.secure = self.silent = False
        self.failing: set[str] = set()
        self.asked: Counter[tuple[str, str]] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cluster(self, name: str, port: int = 6446, texts: str = "", *, ttl: int = 30) -> None:
        """One more cluster of the list."""
        _, targets = self.records.get(("_liqod._tcp.example.org.", "SRV"), (ttl, []))
        srv = f"0 0 {port} {name}.example.org."
        self.records["_liqod._tcp.example.org.", "SRV"] = (ttl, [*targets, srv])
        if texts:
            self.records[f"_liqod.{name}.example.org.", "TXT"] = (ttl, [texts])

    def take(self, zone: str) -> None:
        """Answer as the text of a zone file says, and no otherwise."""
        found = dns.zone.from_text(zone, ".", relativize=False, check_origin=False)
        for name, rdataset in found.iterate_rdatasets():
            kind = dns.rdatatype.to_text(rdataset.rdtype)
            self.records[name.to_text(), kind] = (rdataset.ttl, [r.to_text() for r in rdataset])

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                data, origin = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            if not self.silent:
                self._socket.sendto(self._answer(dns.message.from_wire(data)).to_wire(), origin)

    def _answer(self, question: dns.message.Message) -> dns.message.Message:
        asked = question.question[0]
        name, kind = asked.name.to_text(), dns.rdatatype.to_text(asked.rdtype)
        self.asked[name, kind] += 1
        answer = dns.message.make_response(question)
        if self.secure and question.flags & dns.flags.AD:
            answer.flags |= dns.flags.AD
        if name in self.failing:
            answer.set_rcode(dns.rcode.SERVFAIL)
            return answer
        found = self.records.get((name, kind))
        if found is not None:
            answer.answer.append(dns.rrset.from_text(name, found[0], "IN", kind, *found[1]))
            return answer
        answer.authority.append(dns.rrset.from_text("example.org.", 60, "IN", "SOA", SOA))
        if not any(each == name for each, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer
