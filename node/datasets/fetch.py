"""Gets missing raw files from where they are published, with a progress bar and a checksum.

Only moves bytes: what is inside is the parsers' matter. torchvision does the downloading.
"""

from __future__ import annotations

import logging
import os
import socket
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from lppa.node.datasets.files import (
    MOST_BYTES,
    FoundFile,
    RawFile,
    read,
    too_long,
    unpack_to_nowhere,
    write_down_checksum,
)
from lppa.protocol.errors import WrongUse

log = logging.getLogger(__name__)

# A dead network shall be noticed while somebody is still watching.
TIMEOUT_SECONDS = 10.0


def fetch(files: Sequence[RawFile], folder: Path) -> list[Path]:
    """Downloads those of `files` that are not below `folder` yet; returns the new ones.

    A file appears under its name only when it is complete and checked.
    """
    missing = [file for file in files if file.find(folder) is None]
    new = []
    # Files of one archive stand together, so that it is downloaded once.
    for urls in dict.fromkeys(file.urls for file in missing):
        group = [file for file in missing if file.urls == urls]
        first = folder / (group[0].path + group[0].packing)
        with _room_beside(first, urls) as room:
            download = _download(urls, room, first)
            for file in group:
                place = folder / (file.path + file.packing)
                whole = room / (file.name + file.packing)
                if file.member:
                    _unpack(download, file.member, whole)
                else:
                    download.rename(whole)
                _check(file, whole, urls)
                whole.replace(place)
                if file.md5 is None:
                    write_down_checksum(place)
                new.append(place)
    return new


@contextmanager
def _room_beside(place: Path, urls: Sequence[str]) -> Iterator[Path]:
    """A temporary folder on the same file system, so that moving out of it is atomic."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        room = tempfile.TemporaryDirectory(prefix=".fetch-", dir=place.parent)
    except OSError as error:
        raise WrongUse(
            f"{place.name} is missing from {place.parent}, which cannot be written "
            f"({error.strerror}): get the file from {' or '.join(urls)}, or choose another data "
            "folder with --data-dir"
        ) from None
    with room as path:
        yield Path(path)


def _download(urls: Sequence[str], room: Path, place: Path) -> Path:
    """The first of the addresses that answers."""
    from torchvision.datasets.utils import download_url

    reason = "no address is known"
    for url in urls:
        log.info("downloading %s", url)
        try:
            with _timeout(TIMEOUT_SECONDS), _hushed():
                download_url(url, str(room), filename="download")
            return room / "download"
        # torchvision lets through whatever urllib, ssl and http.client raise.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
    raise WrongUse(
        f"{place.name} is missing from {place.parent} and cannot be downloaded from "
        f"{' or '.join(urls)} ({reason}): put it there by hand, or name another data folder in "
        "LPPA_DATA"
    )


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Sets what torchvision has no parameter for: the time after which a silent peer is dead."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def _hushed() -> Iterator[None]:
    """Keeps torchvision's progress bar, which it has no parameter for, from whoever said -q."""
    if log.isEnabledFor(logging.INFO):
        yield
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        yield


def _unpack(archive: Path, member: str, place: Path) -> None:
    """Takes one file out of a tar archive; nothing else of the archive reaches the disk."""
    try:
        with tarfile.open(archive) as tar:
            file = tar.extractfile(member)
            if file is None:
                raise KeyError(member)
            if tar.getmember(member).size > MOST_BYTES:
                raise WrongUse(too_long(archive))
            place.write_bytes(file.read())
    except (KeyError, tarfile.TarError, EOFError, OSError) as error:
        raise WrongUse(f"the downloaded archive does not hold {member} ({error})") from None


def _check(file: RawFile, path: Path, urls: Sequence[str]) -> None:
    try:
        if file.md5 is None:
            unpack_to_nowhere(path)
        else:
            FoundFile(file, path).check(read(path))
    except WrongUse as error:
        raise WrongUse(f"downloaded from {' or '.join(urls)}: {error}") from None
