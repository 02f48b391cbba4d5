"""The raw files of a data set: where they are looked for, how they are read and checked.

Knows nothing of what is inside them (see the parsers) nor of how to get them (see fetch).
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically

Parsed = TypeVar("Parsed")

# The longest that is read at once is Covertype, of 75 MB; RCV1, which is longer, is read by lines.
MOST_BYTES = 200_000_000
MOST_BY_LINES = 4_000_000_000
OPENERS: dict[str, Callable[..., BufferedIOBase]] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True)
class RawFile:
    """A published file: its place below the data folder, its checksum and where it comes from.

    The checksum is of the content, not of the packing around it, so that a file that was unpacked
    or packed again is still recognised as the published one.
    """

    path: str
    packing: str = ""
    md5: str | None = None
    urls: tuple[str, ...] = ()
    member: str = ""
    """Where `urls` lead to a tar archive: the path of this file in it."""

    @property
    def name(self) -> str:
        """The file's own name, without folder and packing."""
        return Path(self.path).name

    def find(self, folder: Path) -> Path | None:
        """The file as published, or else unpacked; None where neither is there."""
        for candidate in (folder / (self.path + self.packing), folder / self.path):
            if candidate.is_file():
                return candidate
        return None


@dataclass(frozen=True)
class FoundFile:
    """A published file that is on this machine."""

    raw: RawFile
    path: Path

    def parse(self, parser: Callable[[bytes, Path], Parsed]) -> Parsed:
        """What the parser makes of the content, which must be the published one.

        The parser is first: it can say what is wrong, a checksum only that something is.
        """
        content = read(self.path)
        parsed = parser(content, self.path)
        self.check(content)
        return parsed

    def check(self, content: bytes) -> None:
        """Refuses a content whose checksum is not the published one."""
        if self.raw.md5 is None:
            return
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if md5 != self.raw.md5:
            raise WrongUse(
                f"{self.path}: wrong checksum: the content's md5 is {md5}, of the published file "
                f"{self.raw.md5}; delete the file and fetch it again, or use your own data as .npz"
            )


def read(path: Path) -> bytes:
    """The content of a file, unpacked where its name says that it is packed."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            content: bytes = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise WrongUse(too_long(path))
            return content
    except EOFError:
        raise WrongUse(f"{path}: truncated: the packed data ends too early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise WrongUse(f"{path}: damaged: not a readable {path.suffix} file ({error})") from None
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror or error})") from None


def too_long(path: Path) -> str:
    """What is wrong with a file that holds more than any published one."""
    return (
        f"{path}: more than {MOST_BYTES / 1e6:,.0f} MB come out of it, more than out of any "
        "published file: delete it and fetch it again"
    )


def unpack_to_nowhere(path: Path) -> None:
    """Makes sure that a file too long to be read at once is whole, and no longer than it may be."""
    left = MOST_BY_LINES
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            while left >= 0 and (part := file.read(1 << 20)):
                left -= len(part)
    except (EOFError, OSError, zlib.error) as error:
        raise WrongUse(f"{path}: damaged: not a whole {path.suffix} file ({error})") from None
    if left < 0:
        raise WrongUse(too_long(path))


def write_down_checksum(path: Path) -> None:
    """Keeps the checksum of a file that nobody publishes one for, as it was when it was fetched."""
    write_atomically(checksum_file(path), f"{_sha256(path)}  {path.name}\n")


def check_written_down(path: Path) -> None:
    """Refuses a file that is no longer what was fetched, where that was written down."""
    try:
        written = checksum_file(path).read_text(encoding="ascii").split()[0]
    except (OSError, UnicodeDecodeError, IndexError):
        return
    if _sha256(path) != written:
        raise WrongUse(
            f"{path}: not what was fetched, by {checksum_file(path).name} beside it: delete both "
            "and fetch it again"
        )


def checksum_file(path: Path) -> Path:
    """Where the checksum of a fetched file stands."""
    return path.with_name(path.name + ".sha256")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def data_folder(given: str | Path | None = None) -> Path:
    """Where raw data is: as given, else $LPPA_DATA, else in the per-user cache folder."""
    chosen = given or os.environ.get("LPPA_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def cache_folder() -> Path:
    """This user's cache folder for everything that can be made or fetched again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # A relative value must be ignored, as the XDG base directory specification says.
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise WrongUse("no home folder is known for this user: set XDG_CACHE_HOME") from None
    return root / "lppa"
