"""When an interruption must not take effect: while processes are cleared up or counted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Somebody who presses Ctrl-C twice must not leave processes behind."""
    with _handled_by(signal.SIG_IGN):
        yield


@contextmanager
def postponed() -> Iterator[None]:
    """An interruption takes effect after this: a process that nobody noted would be lost."""
    came: list[int] = []
    try:
        with _handled_by(lambda number, frame: came.append(number)):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


@contextmanager
def _handled_by(handler: signal._HANDLER) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        # No interruption reaches any other thread.
        yield
        return
    before = {number: signal.signal(number, handler) for number in ENDINGS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
