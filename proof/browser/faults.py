"""The planted faults, and the finding that the overview must show for each: `FAULTS`.

A fault is a context manager of (binary, folder) that yields the server and removes everything at the end. `says` is a pattern
of the finding, `page` a pattern of the address to which it leads, `remedy` a part of its text.
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
    """A memstore limit of a few MB for the whole server, and a load that fills it faster than flushes empty it."""
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
        raise NotHere("only root can mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def full_disk(binary, folder):
    """Other files fill the disk while clients write."""
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


def preloaded(folder, source):
    """Compiles a C library that replaces functions of libc; returns its path."""
    pathlib.Path(folder).parent.mkdir(parents=True, exist_ok=True)
    library = f"{folder}.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=source, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHere(f"a C compiler is needed: {error}") from error
    return library


@contextlib.contextmanager
def slow_disk(binary, folder):
    """A preloaded library lets each sync take a quarter of a second."""
    library = preloaded(folder, SLOW_SYNC)
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
    """A client scans a whole table again and again."""
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


CLOCK_JUMP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*next)(clockid_t, struct timespec *);
  if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int outcome = next(clock, now);
  const char *jump = getenv("CLOCK_JUMP");
  if (clock == CLOCK_REALTIME && jump && access(jump, F_OK) == 0) now->tv_sec += 300;
  return outcome;
}
"""


@contextlib.contextmanager
def jumping_clock(binary, folder):
    """A preloaded library sets the server's wall clock five minutes ahead, once a file exists."""
    library, jump = preloaded(folder, CLOCK_JUMP), f"{folder}.jump"
    pathlib.Path(jump).unlink(missing_ok=True)
    server = Server(binary, folder, environment={"LD_PRELOAD": library, "CLOCK_JUMP": jump})
    with running(server) as running_server:
        time.sleep(12)
        pathlib.Path(jump).touch()
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
    "clock-jump": Fault(jumping_clock, r"The machine's clock jumped forward by 5 min", r"/log", "chrony"),
    "failing-cache": Fault(failing_cache, r"A device of the block cache", r"/cache", "Nothing is lost"),
}
