"""Ports for programs that begin a while after their port was chosen."""

from __future__ import annotations

import contextlib
import secrets

from mailagent.demo.show import PortBusy, find_port

# Below those that Linux gives out by itself, to servers that ask for any and to each connection that is made
# (ip_local_port_range): such a port would be free now, and taken when the program begins.
LOWEST, COUNT = 20_000, 12_000


def choose_port() -> int:
    """Return a free port of 127.0.0.1 that the system gives to nobody else meanwhile."""
    while True:
        with contextlib.suppress(PortBusy):
            return find_port(LOWEST + secrets.randbelow(COUNT))
