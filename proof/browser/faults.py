"""The faults that are planted, and what the overview must say of each: `FAULTS`.

A fault is a function of (binary, folder) that yields (server, ends): `ends` undoes what the server does not own.
`Says` is a pattern of the finding, `page` one of the address to which it leads, `remedy` one of what to do.
"""

import contextlib
import os
import pathlib
import subprocess
import time
from dataclasses import dataclass
from typing import Callable

from server import Server


class NotHere(Exception):
    """This machine cannot plant the fault."""


@dataclass
class Fault:
    plant: Callable
    says: str
    page: str
    remedy: str


@contextlib.contextmanager
def running(server, *loads):
    try:
        yield server
    finally:
        for load in loads:
            load.terminate()
            load.wait()
        server.remove()


@contextlib.contextmanager
def hot_row(binary, folder):
    """Every second call goes to one row."""
    server = Server(binary, folder)
    server.create("hot")
    load = server.puts("hot", lambda number: b"row%03d" % (number * 7 % 400) if number % 2 else b"celebrity")
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def hot_region(binary, folder):
    """A growing key in a table that was split beforehand: its last region takes everything."""
    server = Server(binary, folder)
    server.create("events", splits=[b"2025", b"2026", b"2027", b"2028"])
    load = server.puts("events", lambda number: b"2026-11-25T%08d" % number)
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def blocked_writes(binary, folder):
    """A few MB of memory for the edits of the whole server, and a load that fills it faster than it is flushed."""
    server = Server(binary, folder, ["-D", "hbase.regionserver.global.memstore.size=0.0005"])
    load = server.bench("random-write", "--threads", "64", "--value-size", "100000", "--rows", "2000", "--seconds", "60",
                        "--no-flush")
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def mounted(folder, size):
    """A small file system in memory."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]).returncode:
        raise NotHere("a file system is mounted by root alone")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def full_disk(binary, folder):
    """A disk that other files fill while clients write."""
    with mounted(folder, "96m"):
        server = Server(binary, f"{folder}/data", ["-D", "hbase.regionserver.hlog.blocksize=4194304"])
        load = server.bench("random-write", "--threads", "8", "--value-size", "5000", "--rows", "1000", "--seconds", "90",
                            "--no-flush")
        with running(server, load) as running_server:
            time.sleep(4)
            with open(f"{folder}/others", "wb") as others, contextlib.suppress(OSError):
                while True:
                    others.write(bytes(65536))
                    others.flush()
            yield running_server


SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int file) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  usleep(250000);
  return next(file);
}
int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
"""


@contextlib.contextmanager
def slow_disk(binary, folder):
    """A sync takes a quarter of a second: a library before libc's sees to that."""
    pathlib.Path(folder).parent.mkdir(parents=True, exist_ok=True)
    library = f"{folder}.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=SLOW_SYNC, text=True,
                       check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHere(f"a C compiler is needed: {error}") from error
    server = Server(binary, folder, ["-D", "hbase.wal.hsync=true"], {"LD_PRELOAD": library})
    load = server.bench("random-write", "--threads", "4", "--rows", "1000", "--seconds", "60", "--no-flush")
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def cold_cache(binary, folder):
    """A restart with a cache smaller than the data that clients read."""
    options = ["-D", "hfile.block.cache.size=0.0001", "-D", "hbase.rs.cacheblocksonwrite=false"]
    server = Server(binary, folder, options)
    subprocess.run([binary, "bench", "--at", server.rpc, "random-read", "--rows", "60000", "--seconds", "1", "--warm-up",
                    "0"], stdout=subprocess.DEVNULL, check=True)
    server.stop()
    server.start()
    load = server.bench("random-read", "--rows", "60000", "--threads", "4", "--seconds", "60", "--warm-up", "0")
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def compaction_debt(binary, folder):
    """Small flushes and no compaction: files pile up until flushes wait."""
    server = Server(binary, folder, ["-D", "hbase.hstore.blockingStoreFiles=8",
                                     "-D", "hbase.hstore.compaction.min=1000", "-D", "hbase.hstore.compactionThreshold=1000",
                                     "-D", "hbase.hregion.memstore.flush.size=1048576"])
    load = server.bench("random-write", "--threads", "8", "--value-size", "10000", "--rows", "20000", "--seconds", "60",
                        "--no-flush", "--flush-size", "1048576")
    with running(server, load) as running_server:
        yield running_server


@contextlib.contextmanager
def full_scans(binary, folder):
    """Somebody reads a whole table, again and again."""
    server = Server(binary, folder)
    server.create("archive")
    server.put("archive", [(b"row%04d" % n, b"v" * 100) for n in range(200)])
    with running(server) as running_server:
        client = server.client()
        for _ in range(60):
            client.scan(b"archive")
            time.sleep(0.1)
        client.close()
        yield running_server


@contextlib.contextmanager
def failing_cache(binary, folder):
    """The file of the block cache's second tier loses its content under load."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    cache = f"{folder}/cache"
    options = ["-D", f"hbase.bucketcache.ioengine=file:{cache}", "-D", "hbase.bucketcache.size=128",
               "-D", "hfile.block.cache.size=0.0001"]
    server = Server(binary, f"{folder}/data", options)
    load = server.bench("random-read", "--rows", "40000", "--threads", "4", "--seconds", "90", "--warm-up", "0")
    with running(server, load) as running_server:
        time.sleep(15)
        os.truncate(cache, 0)
        yield running_server


FAULTS = {
    "hot-row": Fault(hot_row, r"One row of hot is hot: \d+ % of its traffic goes to celebrity", r"/keys\?table=hot", "salt"),
    "hot-region": Fault(hot_region, r"One region of events is hot", r"/keys\?table=events", "salt"),
    "blocked-writes": Fault(blocked_writes, r"Writes are refused: memory for edits is full|Memory for edits is nearly full",
                            r"/memory", "flushes"),
    "full-disk": Fault(full_disk, r"The disk is full", r"/tables\?sort=size", "Delete or move"),
    "slow-disk": Fault(slow_disk, r"The disk is slow", r"/work", "smartctl"),
    "cold-cache": Fault(cold_cache, r"The block cache is cold", r"/cache", "warms"),
    "compaction-debt": Fault(compaction_debt, r"Compactions (cannot keep up|fall behind)", r"/(table|work)", "ompactions"),
    "full-scans": Fault(full_scans, r"Somebody reads whole tables", r"/clients", "prefix"),
    "failing-cache": Fault(failing_cache, r"A device of the block cache", r"/cache", "Nothing is lost"),
}
