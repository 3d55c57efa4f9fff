"""Reads a network's state in the kernel, compares it with the desired one, changes what differs.

:func:`~.apply.apply` applies a value to one network namespace. Below it are the namespaces
themselves (:mod:`.namespaces`), netlink (:mod:`liqod.netlink`, :mod:`.kernellinks`,
:mod:`.routing`), nftables (:mod:`.nft`) and sysctls. Everything that may block runs in worker
threads.
"""
