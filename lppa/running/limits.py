"""What a machine must allow a run of processes and sockets; asked before anything is started."""

from __future__ import annotations

import resource
import tempfile

from lppa.protocol.errors import WrongUse

# Estimated: 64 files were enough for 9 nodes in clear and 4 encrypted, 40 too few for 8 in clear.
FILES, FILES_PER_LINK, FILES_PER_ENCRYPTED_LINK = 36, 3, 6
LONGEST_SOCKET = 107  # characters in the path of a socket, as Unix has it
IN_FOLDER = len("/pymp-01234567/listener-01234567")  # what the fork server puts below a folder


def check_open_files(nodes: int, encrypted: bool) -> None:
    """Refuses a run of more nodes than a process may have files and sockets open for."""
    per_link = FILES_PER_ENCRYPTED_LINK if encrypted else FILES_PER_LINK
    needed = FILES + per_link * nodes
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard) or needed <= soft:
        return
    if needed <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return
    raise WrongUse(
        f"a process may have {hard} files open here, and with {nodes} nodes each needs about "
        f"{needed}: allow more with `ulimit -n {needed}`, or take fewer nodes"
    )


def check_temporary_folder() -> None:
    """Refuses a folder for temporary files in which no socket can be made."""
    folder, most = tempfile.gettempdir(), LONGEST_SOCKET - IN_FOLDER
    if len(folder.encode()) > most:
        raise WrongUse(
            f"sockets need a folder whose path has at most {most} characters, and {folder} has "
            f"{len(folder.encode())}: set TMPDIR to a shorter one, such as TMPDIR=/tmp"
        )
