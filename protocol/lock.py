"""One writer at a time: a lock on a folder. Nothing is written here."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import make_private


class FolderLock:
    """Two processes that write to one folder would spoil it. The lock ends with its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: int | None = None

    def take(self, patience: float = 0.0) -> None:
        """Takes the lock, once; waits a while for another process to end."""
        if self.held is not None:
            return
        make_private(self.folder)
        held, deadline = os.open(self.folder, os.O_RDONLY), time.monotonic() + patience
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                os.close(held)
                raise WrongUse(
                    f"another process still writes to {self.folder}: wait until it has ended, or "
                    "end it"
                ) from None
            self.held = held
            return

    def free(self) -> None:
        """Lets others have it."""
        if self.held is not None:
            os.close(self.held)
            self.held = None
