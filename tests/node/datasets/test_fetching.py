import bz2
import functools
import gzip
import hashlib
import http.server
import io
import socket
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lppa.node.datasets import load_dataset
from lppa.node.datasets.catalogue import CATALOGUE
from lppa.node.datasets.fetch import fetch
from lppa.node.datasets.files import RawFile, check_written_down, data_folder, read
from lppa.protocol.errors import WrongUse
from lppa.shell import verbosity


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder, and the address where its files can be downloaded; requests are counted."""
    folder = tmp_path / "server"
    folder.mkdir()
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            requests.append(self.path)

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(Handler, directory=str(folder))
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}", requests
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.mark.parametrize("name", [name for name in CATALOGUE if CATALOGUE[name].files])
def test_without_network_one_line_names_file_folder_and_origin(name, tmp_path, no_network):
    with pytest.raises(WrongUse) as error:
        load_dataset(name, tmp_path)
    text, first = str(error.value), CATALOGUE[name].files[0]
    assert "\n" not in text
    assert Path(first.path).name in text
    assert str((tmp_path / first.path).parent) in text
    assert all(url in text for url in first.urls)
    assert "cannot be downloaded" in text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WrongUse, match=r"train-images.* is missing from .*cannot be written"):
        load_dataset("mnist", tmp_path / "file")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_progress_bar_is_shown_unless_somebody_said_q(tmp_path, server, quiet):
    folder, url, _ = server
    (folder / "a").write_bytes(b"content")
    file = RawFile("a", md5=md5(b"content"), urls=(f"{url}/a",))

    @click.command()
    @verbosity
    def get():
        fetch([file], tmp_path / "data")

    result = CliRunner().invoke(get, ["-q"] * quiet, catch_exceptions=False)
    assert (tmp_path / "data" / "a").read_bytes() == b"content"
    assert (result.stderr == "") is quiet


def test_a_missing_file_is_fetched_whole_and_a_present_one_is_not(tmp_path, server):
    folder, url, requests = server
    packed = gzip.compress(b"content")
    (folder / "a.gz").write_bytes(packed)
    there = RawFile("set/b", md5="of something else", urls=(f"{url}/b",))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "b").write_text("mine")
    missing = RawFile("set/a", ".gz", md5(b"content"), (f"{url}/a.gz",))
    assert fetch([missing, there], tmp_path) == [tmp_path / "set" / "a.gz"]
    assert (tmp_path / "set" / "a.gz").read_bytes() == packed
    assert not any("/b" in request for request in requests)
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["a.gz", "b"]


def test_a_download_with_the_wrong_checksum_is_not_kept(tmp_path, server):
    folder, url, _ = server
    (folder / "a").write_bytes(b"tampered")
    with pytest.raises(WrongUse, match="wrong checksum") as error:
        fetch([RawFile("set/a", md5=md5(b"content"), urls=(f"{url}/a",))], tmp_path)
    assert f"{url}/a" in str(error.value)
    assert list((tmp_path / "set").iterdir()) == []


def test_the_second_address_is_tried_when_the_first_has_nothing(tmp_path, server):
    folder, url, _ = server
    (folder / "a").write_bytes(b"content")
    file = RawFile("a", md5=md5(b"content"), urls=(f"{url}/gone", f"{url}/a"))
    fetch([file], tmp_path)
    assert (tmp_path / "a").read_bytes() == b"content"


def test_an_archive_is_downloaded_once_for_all_its_files(tmp_path, server):
    folder, url, requests = server
    with tarfile.open(folder / "all.tar.gz", "w:gz") as tar:
        for name in ("in/a", "in/b", "../evil"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(name[-4:].encode().ljust(4)))
    files = [
        RawFile(f"set/{name}", urls=(f"{url}/all.tar.gz",), member=f"in/{name}") for name in "ab"
    ]
    assert len(fetch(files, tmp_path)) == 2
    assert (tmp_path / "set" / "b").read_bytes() == b"in/b"
    assert not list(tmp_path.rglob("evil"))
    # torchvision asks once to follow redirections and once for the file.
    assert len(requests) == 2


def test_an_archive_without_the_file_is_refused(tmp_path, server):
    folder, url, _ = server
    with tarfile.open(folder / "all.tar", "w"):
        pass
    with pytest.raises(WrongUse, match="does not hold in/a"):
        fetch([RawFile("a", urls=(f"{url}/all.tar",), member="in/a")], tmp_path)


def test_loading_fetches_what_is_missing(tmp_path, server, monkeypatch):
    folder, url, _ = server
    row = "39, Private, 7, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 40, Cuba, "
    content = f"{row}<=50K\n{row}>50K\n".encode()
    files = []
    for name in ("adult.data", "adult.test"):
        (folder / name).write_bytes(content)
        files.append(RawFile(f"adult/{name}", "", md5(content), (f"{url}/{name}",)))
    source = replace(CATALOGUE["adult"], files=tuple(files))
    monkeypatch.setitem(CATALOGUE, "adult", source)
    assert load_dataset("adult", tmp_path / "data").train.y.tolist() == [0, 1]


def test_the_data_folder_is_the_given_one_else_the_environments_else_the_users(
    tmp_path, monkeypatch
):
    assert data_folder() == tmp_path / "cache" / "lppa" / "data"
    monkeypatch.setenv("LPPA_DATA", str(tmp_path / "shared"))
    assert data_folder() == tmp_path / "shared"
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("LPPA_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_folder() == tmp_path / "home" / ".cache" / "lppa" / "data"


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(WrongUse, match=r"'mnits': use one of digits, mnist.*\.npz"):
        load_dataset("mnits")


def test_everything_is_downloaded_over_https():
    urls = [url for source in CATALOGUE.values() for file in source.files for url in file.urls]
    assert urls
    assert all(url.startswith("https://") for url in urls)


def test_a_packed_file_that_unpacks_beyond_measure_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("lppa.node.datasets.files.MOST_BYTES", 1_000_000)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(1_000_001)))
    with pytest.raises(WrongUse, match="more than 1 MB come out of it"):
        read(path)


def test_a_file_without_a_published_checksum_is_kept_to_what_was_fetched_first(tmp_path, server):
    folder, address, _ = server
    (folder / "rows.bz2").write_bytes(bz2.compress(b"+1 1:0.5\n"))
    (place,) = fetch([RawFile("rows", ".bz2", None, (f"{address}/rows.bz2",))], tmp_path / "data")
    check_written_down(place)
    place.write_bytes(bz2.compress(b"-1 1:0.5\n"))
    with pytest.raises(WrongUse, match=r"not what was fetched, by rows.bz2.sha256 beside it"):
        check_written_down(place)


def test_a_download_without_a_checksum_that_is_not_whole_is_refused(tmp_path, server):
    folder, address, _ = server
    (folder / "rows.bz2").write_bytes(bz2.compress(b"+1 1:0.5\n" * 1000)[:-8])
    with pytest.raises(WrongUse, match=r"not a whole \.bz2 file"):
        fetch([RawFile("rows", ".bz2", None, (f"{address}/rows.bz2",))], tmp_path / "data")
    assert not list((tmp_path / "data").rglob("rows*"))
