"""Requests to borrow and to lend: those received, those sent, and the records of both."""
