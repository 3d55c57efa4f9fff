"""The terminal program: a live view of a running daemon. It is a process of its own.

It knows liqod by the inspector's protocol and :mod:`liqod.model` alone. Everything but ``app``,
``widgets``, ``dialogs`` and ``link`` is pure: messages are reduced to a
:class:`~tui.session.Session`, and views turn that into a :class:`~tui.table.Table`.
"""
