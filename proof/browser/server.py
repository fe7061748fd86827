"""A server for a test: started on free ports, with its files in a folder that is deleted at the end."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gohbase"))

from client import PUT_MUTATION, Client, Mutation  # noqa: E402
from wire import message  # noqa: E402


class Server:
    """`options` are those of `bellows start`; `environment` is added to this process's."""

    def __init__(self, binary, folder, options=(), environment=None):
        self.binary, self.folder = binary, pathlib.Path(folder)
        self.options, self.environment = list(options), environment or {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self):
        ports = [word for name in ("rpc", "master", "zk", "web") for word in (f"--{name}-port", "0")]
        self.log = open(f"{self.folder}.log", "ab")
        self.process = subprocess.Popen(
            [self.binary, "start", "--bind", "127.0.0.1", "--data-dir", str(self.folder), *ports, *self.options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **self.environment})
        first = self.process.stdout.readline()
        found = re.search(r"region server (\S+), master (\S+), registry (\S+), web (\S+?)/?$", first.strip())
        if not found:
            raise RuntimeError(f"the server is not ready, see {self.folder}.log: {first!r}")
        self.rpc, self.master, self.registry, self.web = found.groups()

    def client(self):
        return Client(self.registry)

    def create(self, table, attributes=None, splits=()):
        """Creates a table with the family f."""
        pairs = [message((1, key), (2, value)) for key, value in (attributes or {}).items()]
        schema = message((1, message((1, "default"), (2, table))), (3, [message((1, "f"), (2, pairs))]))
        client = self.client()
        client.procedure("CreateTable", message((1, schema), (2, list(splits))))
        client.close()

    def put(self, table, rows):
        """Puts `rows`, pairs of key and value."""
        client = self.client()
        for row, value in rows:
            client.mutate(table.encode(), Mutation(PUT_MUTATION, row, {b"f": {b"q": value}}))
        client.close()

    def bench(self, *words):
        """Starts a load in the background; the caller ends it."""
        return subprocess.Popen([self.binary, "bench", "--at", self.rpc, *words], stdout=subprocess.DEVNULL,
                                stderr=self.log)

    def puts(self, table, row):
        """Puts rows in the background, `row(number)` each; the caller ends it."""
        return Puts(self, table, row)

    def stop(self):
        """Stops the server, and kills it if it has not ended after 30 s."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Puts(threading.Thread):
    """Puts rows one after the other until `terminate`."""

    def __init__(self, server, table, row):
        super().__init__(daemon=True)
        self.server, self.table, self.row, self.over = server, table, row, threading.Event()
        self.start()

    def run(self):
        client, number = self.server.client(), 0
        # Located once: each look-up of this client asks for the first row of the region, too.
        region = client.locate(self.table.encode(), self.row(0))
        while not self.over.is_set():
            put = Mutation(PUT_MUTATION, self.row(number), {b"f": {b"q": b"value"}})
            client.mutate(self.table.encode(), put, region)
            number += 1
        client.close()

    def terminate(self):
        self.over.set()

    def wait(self):
        self.join()
