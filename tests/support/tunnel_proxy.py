"""A loopback proxy that makes tunnels (`CONNECT`), as companies have before everything outside."""

import shutil
import socket
import threading
from contextlib import suppress
from typing import Self


class TunnelProxy:
    """`with TunnelProxy() as proxy:` relays to whatever it is asked for; with `status` it refuses."""

    def __init__(self, *, status: int = 200) -> None:
        self._status = status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.port = int(self._listener.getsockname()[1])
        self.asked: list[str] = []
        """The heads of the requests that it was sent."""

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _run(self, target: object, *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._run(self._serve, self._listener.accept()[0])

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n") and (byte := client.recv(1)):
            head += byte
        self.asked.append(head.decode())
        client.sendall(f"HTTP/1.1 {self._status} Said\r\n\r\n".encode())
        if self._status != 200:
            client.close()
            return
        host, _, port = head.split()[1].decode().partition(":")
        server = socket.create_connection((host, int(port)))
        self._run(self._relay, server, client)
        self._relay(client, server)

    @staticmethod
    def _relay(source: socket.socket, target: socket.socket) -> None:
        with (
            suppress(OSError),
            source.makefile("rb", buffering=0) as reader,
            target.makefile("wb", buffering=0) as writer,
        ):
            shutil.copyfileobj(reader, writer, 1)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()
