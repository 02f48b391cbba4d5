"""The live page: what it serves, what it refuses, and that it grows."""

from __future__ import annotations

import http.client
import socket
import threading

import pytest

from lppa.protocol.errors import WrongUse
from lppa.report.live import LivePage, open_server


@pytest.fixture
def serve():
    """Starts servers in threads and ends them all."""
    servers = []

    def start(folder):
        server = open_server(folder)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        servers.append((server, thread))
        return server

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        headers = {"Host": host or f"127.0.0.1:{server.server_port}"}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_the_report_with_a_script_that_asks_for_news(made_up, serve):
    status, headers, text = ask(serve(made_up().whole().folder))
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert text.count("<script>") == 1
    assert 'data-chart="Test accuracy"' in text
    assert "connect-src 'self'" in text.replace("&#x27;", "'")


def test_there_is_news_only_when_the_run_has_grown(made_up, serve):
    run = made_up().begin()
    run.evaluate(5)
    server = serve(run.folder)
    status, headers, first = ask(server, "/news?version=")
    assert status == 200
    assert headers["X-Over"] == "no"
    same = f"/news?version={headers['X-Version']}"
    assert ask(server, same)[0] == 204
    run.evaluate(10)
    status, headers, second = ask(server, same)
    assert status == 200
    assert "round 5 of" in first
    assert "round 10 of" in second
    run.end()
    status, headers, _ = ask(server, f"/news?version={headers['X-Version']}")
    assert (status, headers["X-Over"]) == (200, "yes")


def test_files_are_read_again_only_when_they_have_changed(made_up, monkeypatch):
    run = made_up().begin()
    page = LivePage(run.folder)
    draws = []
    draw = page._draw
    monkeypatch.setattr(page, "_draw", lambda: draws.append(1) or draw())
    assert page.now() == page.now()
    assert len(draws) == 1
    run.evaluate(5)
    page.now()
    assert len(draws) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_anything_but_get_is_refused(made_up, serve, method):
    status, _, _ = ask(serve(made_up().begin().folder), method=method)
    assert status in (405, 501)


@pytest.mark.parametrize(
    "path", ["/config.json", "/../config.json", "/news/x", "/favicon.ico", "/%2e%2e/x"]
)
def test_there_is_nothing_else_to_get(made_up, serve, path):
    status, _, text = ask(serve(made_up().begin().folder), path)
    assert (status, text) == (404, "There is no such page.\n")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost"])
@pytest.mark.parametrize("path", ["/", "/news"])
def test_a_foreign_name_for_this_machine_gets_nothing(made_up, serve, host, path):
    server = serve(made_up().begin().folder)
    status, _, text = ask(server, path, host=host.format(port=server.server_port))
    assert status == 403
    assert "made-up" not in text
    assert ask(server, path, host=f"localhost:{server.server_port}")[0] == 200


def test_a_request_without_a_host_gets_nothing(made_up, serve):
    server = serve(made_up().begin().folder)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as link:
        link.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b" 403 " in link.makefile("rb").readline()


def test_it_listens_on_this_machine_only(made_up, serve):
    server = serve(made_up().begin().folder)
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_a_browser_that_goes_away_harms_nobody(made_up, serve, capfd):
    server = serve(made_up().whole().folder)
    for said in (b"", b"GET / HT", b"\x00\xff\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as link:
            link.sendall(said)
    assert ask(server)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_run_that_is_not_there_yet_is_waited_for(made_up, serve, tmp_path):
    server = serve(tmp_path / "made-up")
    status, headers, text = ask(server, "/news")
    assert (status, headers["X-Over"]) == (200, "no")
    assert "Waiting for the run made-up to begin." in text
    made_up().begin()
    assert "lppa on digits" in ask(server, f"/news?version={headers['X-Version']}")[2]


def test_a_run_that_can_never_come_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="nor the folder that it would be in"):
        open_server(tmp_path / "no" / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match="is not a folder"):
        open_server(tmp_path / "file")


def test_a_port_that_is_taken_is_refused(made_up, serve):
    run = made_up().begin()
    taken = serve(run.folder).server_port
    with pytest.raises(WrongUse, match=f"port {taken} cannot be used"):
        open_server(run.folder, taken)
