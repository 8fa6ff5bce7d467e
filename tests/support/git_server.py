"""A git server on the loopback device, for one account; and a proxy that leads to it."""

from __future__ import annotations

import base64
import http.client
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

USER, PASSWORD = "tess", "a password: with = and spaces"


class _Served(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = b""
            while size := int(self.rfile.readline(), 16):
                chunks += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return chunks
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def serve(self) -> None:
        raise NotImplementedError


@contextmanager
def _listening(handler: type[_Served]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving_git(folder: Path) -> Iterator[str]:
    """Serve the repositories in a folder to whoever has the password; the address."""
    wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Git(_Served):
        def serve(self) -> None:
            said = self.body()
            if self.headers.get("Authorization") != wanted:
                self.answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
                return
            place = urlsplit(self.path)
            env = {
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "REMOTE_USER": USER,
                "PATH_INFO": place.path, "QUERY_STRING": place.query, "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(said)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }  # fmt: skip
            done = subprocess.run(["git", "http-backend"], env=env, input=said, capture_output=True)
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            headers = [(name, value.strip()) for name, _, value in (
                line.partition(":") for line in head.decode().split("\r\n") if line
            )]  # fmt: skip
            status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
            self.answer(status, [each for each in headers if each[0] != "Status"], body)

    with _listening(Git) as address:
        yield address


@contextmanager
def proxying(asked: list[str]) -> Iterator[str]:
    """A proxy that notes what it is asked for; its address."""

    class Proxy(_Served):
        def serve(self) -> None:
            asked.append(self.path)
            place, said = urlsplit(self.path), self.body()
            upstream = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
            kept = {name: value for name, value in self.headers.items() if name not in _OF_ONE_HOP}
            query = f"?{place.query}" if place.query else ""
            upstream.request(self.command, place.path + query, said, kept)
            reply = upstream.getresponse()
            body = reply.read()
            headers = [each for each in reply.getheaders() if each[0] not in ("Content-Length", "Server", "Date")]
            self.answer(reply.status, headers, body)
            upstream.close()

    with _listening(Proxy) as address:
        yield address


_OF_ONE_HOP = ("Transfer-Encoding", "Content-Length", "Connection", "Proxy-Connection")
