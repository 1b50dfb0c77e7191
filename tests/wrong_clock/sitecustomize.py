"""A machine whose clock is wrong: on the path of a child process, Python runs this before anything else.

The file that WRONG_CLOCK names holds by how many seconds; a test writes another number into it, and the
clock jumps. Clocks that nobody can set go on as they are. Only for tests: the app knows nothing of it.
"""

import datetime
import os
import time

_real_time = time.time
_RealDatetime = datetime.datetime
_FILE = os.environ["WRONG_CLOCK"]


def _wrong_time() -> float:
    with open(_FILE, encoding="ascii") as file:
        return _real_time() + float(file.read())


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _RealDatetime)


class _WrongDatetime(_RealDatetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz=None):  # type: ignore[no-untyped-def]  # as its parent's, for whatever is passed
        return _RealDatetime.fromtimestamp(_wrong_time(), tz)

    @classmethod
    def utcnow(cls):  # type: ignore[no-untyped-def]  # likewise
        return _RealDatetime.fromtimestamp(_wrong_time(), datetime.UTC).replace(tzinfo=None)


time.time = _wrong_time
time.time_ns = lambda: int(_wrong_time() * 1e9)
datetime.datetime = _WrongDatetime  # type: ignore[misc]  # that is the point
