"""Files come whole or not at all, and what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from lppa.protocol.files import write_atomically


def test_a_device_is_written_into_and_stays_one(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.open("wb").close()
    except OSError:
        pytest.skip("devices can be made by root alone, and not everywhere")
    write_atomically(device, "text")
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


def test_a_pipe_gets_what_is_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    while not heard:
        try:
            write_atomically(pipe, "text" * 100_000)
            break
        except OSError:  # the reader is not there yet
            pass
    reader.join()
    assert heard == ["text" * 100_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_pipe_that_nobody_reads_is_an_error_and_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"):
        write_atomically(pipe, "text")


def test_a_name_of_what_is_open_is_written_into(tmp_path):
    with (tmp_path / "open").open("wb") as file:
        write_atomically(Path(f"/proc/self/fd/{file.fileno()}"), "text")
    assert (tmp_path / "open").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["open"]


def test_a_link_to_a_file_is_replaced_and_the_file_left_alone(tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(there)
    write_atomically(link, "text")
    assert there.read_text() == "mine"
    assert link.read_text() == "text"
