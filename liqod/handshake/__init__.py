"""The handshake: two daemons that meet prove who they are, ask and answer, and keep the channel.

``messages``, ``proof``, ``sas``, ``invitationtokens``, ``advertcodec``, ``requestphase`` and
``statemachine`` are pure: text and keys in, values out; no socket, no clock, no event loop.
``docs/background/handshake.md`` tells the whole.
"""
