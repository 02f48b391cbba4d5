"""The report of a run while it grows, served to browsers on this machine only.

A page asks for what is new every second or two; a run's files are read again only when they have
changed. Only GET, only three paths, only under the names of this machine: a page from elsewhere
that points a name of its own at 127.0.0.1 gets nothing.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lppa.protocol.errors import WrongUse
from lppa.report.markup import Markup, tag
from lppa.report.page import POLICY, frame, render_main
from lppa.report.reading import read_run

log = logging.getLogger("lppa.coordinator")

HOST = "127.0.0.1"
WATCHED = ("", "attacks")  # folders in a run's directory whose files make the page
SLOW = 30.0  # seconds that a browser may take for a request

SCRIPT = """
(async () => {
  const main = document.getElementById("report");
  let version = main.firstElementChild?.dataset.version ?? "", over = false;
  const pause = () => new Promise(done => setTimeout(done, 1000));
  while (!over) {
    await pause();
    let answer;
    try { answer = await fetch("/news?version=" + version, {cache: "no-store"}); }
    catch { document.title = "(stopped) lppa"; continue; }
    if (answer.status === 200) {
      const open = [...main.querySelectorAll("details[open]")].map(part => part.id);
      const [x, y] = [scrollX, scrollY];
      main.innerHTML = await answer.text();
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      scrollTo(x, y);
      document.title = main.querySelector("h1").textContent;
    }
    version = answer.headers.get("X-Version") ?? version;
    over = answer.headers.get("X-Over") === "yes";
  }
  main.dataset.over = "yes";
})();
"""
SCRIPT_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
LIVE_POLICY = f"{POLICY}; script-src 'sha256-{SCRIPT_HASH}'; connect-src 'self'"


class LivePage:
    """The content of the page as the run's files are now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.seen: Any = None
        self.main, self.version, self.over = Markup(""), "", False

    def now(self) -> tuple[Markup, str, bool]:
        """Content, its version, and whether the run is over; drawn anew if files have changed."""
        with self.lock:
            seen = self._signature()
            if seen != self.seen:
                self.main, self.over = self._draw()
                self.version = hashlib.sha256(self.main.encode()).hexdigest()[:16]
                self.seen = seen
            return self.main, self.version, self.over

    def _signature(self) -> list[tuple[str, int, int]]:
        found = []
        for folder in WATCHED:
            try:
                paths = sorted((self.folder / folder).iterdir())
            except OSError:
                continue
            for path in paths:
                try:
                    about = path.stat()
                except OSError:  # gone between two looks
                    continue
                found.append((path.name, about.st_mtime_ns, about.st_size))
        return found

    def _draw(self) -> tuple[Markup, bool]:
        try:
            run = read_run(self.folder)
        except WrongUse:
            waiting = tag("p", f"Waiting for the run {self.folder.name} to begin.", class_="note")
            return tag("header", tag("h1", "No run yet"), waiting), False
        return render_main([run]), run.over


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    timeout = SLOW
    server_version, sys_version = "lppa", ""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.names:
            self._answer(HTTPStatus.FORBIDDEN, "This page is for this machine only.\n")
            return
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._page()
        elif parts.path == "/news":
            self._news(parse_qs(parts.query).get("version", [""])[0])
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There is no such page.\n")

    def _refuse(self) -> None:
        self.close_connection = True
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET.\n", {"Allow": "GET"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _refuse

    def _page(self) -> None:
        main, version, _ = self.server.page.now()
        content = tag("div", main, data_version=version)
        text = frame(content, f"lppa: {self.server.page.folder.name}", LIVE_POLICY, SCRIPT)
        self._answer(HTTPStatus.OK, text, {"Content-Type": "text/html; charset=utf-8"})

    def _news(self, known: str) -> None:
        main, version, over = self.server.page.now()
        about = {"X-Version": version, "X-Over": "yes" if over else "no"}
        if known == version:
            self._answer(HTTPStatus.NO_CONTENT, "", about)
        else:
            content = tag("div", main, data_version=version)
            about["Content-Type"] = "text/html; charset=utf-8"
            self._answer(HTTPStatus.OK, content, about)

    def _answer(self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> None:
        raw = text.encode("utf-8")
        known = {
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            **(headers or {}),
        }
        self.send_response(status)
        for name, value in known.items():
            self.send_header(name, value)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("watch: " + format, *args)


class Server(ThreadingHTTPServer):
    """Serves one run's page on the loopback interface."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.page = LivePage(folder)
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as error:
            raise WrongUse(f"port {port} cannot be used: {error}; choose another --port") from None
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def server_bind(self) -> None:
        """As in the base class, without its look-up of this machine's name, which can take long."""
        self.allow_reuse_address = True
        super(ThreadingHTTPServer, self).server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no event."""
        log.debug("watch: a request was not answered", exc_info=True)


def open_server(folder: Path, port: int = 0) -> Server:
    """A server for a run that is there, or may come: its parent must be there."""
    if folder.exists() and not folder.is_dir():
        raise WrongUse(f"{folder} is not a folder: name a run's directory")
    if not folder.exists() and not folder.resolve().parent.is_dir():
        raise WrongUse(f"{folder} is not there, nor the folder that it would be in: check the path")
    return Server(folder, port)
