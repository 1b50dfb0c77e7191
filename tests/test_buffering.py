"""How many unfinished requests a client may have, where gunicorn listens on a Unix socket and on TCP."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.buffering import UNFINISHED_PER_ADDRESS, BufferingWorker

UNNAMED, ABSTRACT = "", b"\0client"  # what Linux says of a client of a Unix socket
STRANGER, NEIGHBOUR = ("192.0.2.1", 40_000), ("192.0.2.2", 40_000)


class _Cfg:
    forwarded_allow_ips: tuple[str, ...] = ()

    def forwarded_allow_networks(self) -> list[Any]:
        return []


def is_one_too_many(client: Any, *arriving: Any) -> bool:
    worker = BufferingWorker.__new__(BufferingWorker)
    worker.cfg, worker._verified = _Cfg(), set()
    worker.nr_conns, worker.worker_connections = 0, 500
    worker._arriving = {SimpleConn(each): None for each in arriving}
    return worker._is_one_too_many(SimpleConn(client))


class SimpleConn:
    def __init__(self, client: Any) -> None:
        self.client = client


@pytest.mark.parametrize("other", [UNNAMED, ABSTRACT, NEIGHBOUR])
def test_clients_of_a_unix_socket_do_not_count_for_an_address(other: Any) -> None:
    most = [STRANGER] * (UNFINISHED_PER_ADDRESS - 1)
    assert not is_one_too_many(STRANGER, *most, other)
    assert is_one_too_many(STRANGER, *most, other, STRANGER)


def test_clients_of_a_unix_socket_have_no_limit() -> None:
    assert not is_one_too_many(UNNAMED, STRANGER, *[UNNAMED] * UNFINISHED_PER_ADDRESS)
