"""What gohbase does, by its own bytes: `gohbase_suite.py QUORUM [unittest's words]`, the quorum being one host:port.

Every test runs over plain and over snappy cell blocks. The table has families f (5 versions) and g (1), split at h and p.
"""

import struct
import sys
import unittest

from client import APPEND, DELETE_MUTATION, INCREMENT, PUT_MUTATION, Client, Mutation, Region, Scan, get_message, region_specifier
from wire import Message, RemoteError, message, server_at

QUORUM = sys.argv.pop(1)
PACKAGE = "org.apache.hadoop.hbase."
EQUAL = 2

# What gohbase's CreateTable says of a family unless told.
FAMILY = {
    "BLOOMFILTER": "ROW", "VERSIONS": "3", "IN_MEMORY": "false", "KEEP_DELETED_CELLS": "false",
    "DATA_BLOCK_ENCODING": "FAST_DIFF", "TTL": "2147483647", "COMPRESSION": "NONE", "MIN_VERSIONS": "0",
    "BLOCKCACHE": "true", "BLOCKSIZE": "65536", "REPLICATION_SCOPE": "0",
}


def table_name(name):
    return message((1, "default"), (2, name))


def create_table(name, families, splits=()):
    schemas = []
    for family, own in families.items():
        attributes = [message((1, key), (2, value)) for key, value in {**FAMILY, **own}.items()]
        schemas.append(message((1, family), (2, attributes)))
    return message((1, message((1, table_name(name)), (3, schemas))), (2, list(splits)))


def binary_comparator(value):
    return message((1, PACKAGE + "filter.BinaryComparator"), (2, message((1, message((1, value))))))


class Calls:
    """The tests; a class below says how cell blocks travel."""

    snappy = False

    @classmethod
    def setUpClass(cls):
        cls.client = Client(QUORUM, cls.snappy)
        cls.table = b"gohbase-snappy" if cls.snappy else b"gohbase-plain"
        cls.drop(cls.table)
        request = create_table(cls.table, {"f": {"VERSIONS": "5"}, "g": {"VERSIONS": "1"}}, [b"h", b"p"])
        cls.client.procedure("CreateTable", request)

    @classmethod
    def tearDownClass(cls):
        cls.drop(cls.table)
        cls.client.close()

    @classmethod
    def tables(cls):
        reply = cls.client.admin("GetTableNames", message((1, ".*"), (2, False), (3, "")))
        return [Message(name).one(2) for name in reply.all(1)]

    @classmethod
    def drop(cls, name):
        if name in cls.tables():
            cls.client.procedure("DisableTable", message((1, table_name(name))))
            cls.client.procedure("DeleteTable", message((1, table_name(name))))

    def row(self, prefix=""):
        return (prefix + self.id().split(".")[-1]).encode()

    def put(self, row, values, **words):
        _, cells = self.client.mutate(self.table, Mutation(PUT_MUTATION, row, values, **words))
        self.assertEqual([], cells)

    def refused(self, class_name, act):
        with self.assertRaises(RemoteError) as caught:
            act()
        # gohbase goes by the name, and finds what it knows in the text.
        self.assertEqual(PACKAGE + class_name, caught.exception.class_name)
        self.assertTrue(caught.exception.text.startswith(PACKAGE + class_name), caught.exception.text[:200])

    def test_servers_are_found_by_zookeeper(self):
        for path in ("/hbase/meta-region-server", "/hbase/master"):
            host, port = server_at(QUORUM, path).rsplit(":", 1)
            self.assertTrue(host and int(port) > 0)

    def test_regions_are_found_in_meta(self):
        bounds = [(region.start, region.stop) for region in self.client.all_regions(self.table)]
        self.assertEqual([(b"", b"h"), (b"h", b"p"), (b"p", b"")], bounds)
        for row, start in ((b"", b""), (b"a", b""), (b"h", b"h"), (b"gzz", b""), (b"zzz", b"p"), (b"p\0", b"p")):
            region = self.client.locate(self.table, row)
            self.assertEqual(start, region.start, row)
            self.assertTrue(region.name.startswith(self.table + b"," + start + b","))
        self.assertIsNone(self.client.locate(b"gohbase-nosuch", b"r"))
        self.assertIsNone(self.client.locate(self.table + b"x", b"r"))
        # The longest key that fits into a row of hbase:meta.
        self.assertEqual(b"p", self.client.locate(self.table, b"z" * ((1 << 15) - 1 - len(self.table) - 3)).start)

    def test_a_put_is_read_back(self):
        row = self.row()
        self.put(row, {b"f": {b"a": b"1", b"": b""}, b"g": {b"b": bytes(range(256))}}, timestamp=5)
        every = ["f:@5=", "f:a@5=1", "g:b@5=" + bytes(range(256)).decode("latin-1")]
        self.assertEqual(every, self.client.get(self.table, row))
        self.assertEqual(["f:a@5=1"], self.client.get(self.table, row, families={b"f": [b"a", b"none"]}))
        self.assertEqual(every[:2], self.client.get(self.table, row, families={b"f": []}))
        region = self.client.locate(self.table, row)
        result, cells = self.client.get_in(region, row, exists=True)
        self.assertEqual((1, []), (result.one(3), cells))
        self.assertEqual(0, self.client.get_in(region, row + b"none", exists=True)[0].one(3))
        self.assertEqual([], self.client.get(self.table, row + b"none"))

    def test_a_put_without_a_timestamp_has_the_servers(self):
        self.put(self.row(), {b"f": {b"q": b"v"}})
        _, (cell,) = self.client.get_in(self.client.locate(self.table, self.row()), self.row())
        self.assertTrue(1_500_000_000_000 < cell.timestamp < 1 << 60, cell.timestamp)

    def test_versions_times_limits_and_filters(self):
        row = self.row()
        for version in range(1, 6):
            self.put(row, {b"f": {b"q": b"v%d" % version, b"r": b"r"}}, timestamp=version)
        only = {"families": {b"f": [b"q"]}}
        self.assertEqual(["f:q@5=v5"], self.client.get(self.table, row, **only))
        self.assertEqual(["f:q@5=v5", "f:q@4=v4"], self.client.get(self.table, row, versions=2, **only))
        self.assertEqual(["f:q@3=v3", "f:q@2=v2"], self.client.get(self.table, row, versions=9, times=(2, 4), **only))
        self.assertEqual(["f:q@5=v5"], self.client.get(self.table, row, limit=1))
        self.assertEqual(["f:r@5=r"], self.client.get(self.table, row, limit=1, offset=1))
        prefix = message((1, PACKAGE + "filter.ColumnPrefixFilter"), (2, message((1, b"r"))))
        self.assertEqual(["f:r@5=r"], self.client.get(self.table, row, filter=prefix))

    def test_every_durability_and_a_time_to_live(self):
        for durability in range(5):
            self.put(self.row(), {b"f": {b"%d" % durability: b"v"}}, durability=durability, timestamp=5)
        self.put(self.row(), {b"f": {b"ttl": b"v"}}, ttl=3_600_000, timestamp=5)
        self.assertEqual([f"f:{name}@5=v" for name in (0, 1, 2, 3, 4)], self.client.get(self.table, self.row()))

    def test_deletes_of_every_kind(self):
        def fill(row):
            for version in (1, 2, 3):
                self.put(row, {b"f": {b"q": b"q", b"r": b"r"}, b"g": {b"q": b"g"}}, timestamp=version)

        def left(suffix, values, **words):
            row = self.row() + suffix
            fill(row)
            self.client.mutate(self.table, Mutation(DELETE_MUTATION, row, values, **words))
            return [cell.split("=")[0] for cell in self.client.get(self.table, row, versions=9)]

        f_q, f_r = ["f:q@3", "f:q@2", "f:q@1"], ["f:r@3", "f:r@2", "f:r@1"]
        self.assertEqual([], left(b"row", None))
        self.assertEqual(["f:q@3", "f:r@3", "g:q@3"], left(b"row at", None, timestamp=2))
        self.assertEqual(["g:q@3"], left(b"family", {b"f": None}))
        self.assertEqual(["f:q@3", "f:r@3", "g:q@3"], left(b"family at", {b"f": None}, timestamp=2))
        self.assertEqual(
            ["f:q@3", "f:q@1", "f:r@3", "f:r@1", "g:q@3"],
            left(b"family version", {b"f": None}, timestamp=2, one_version=True),
        )
        self.assertEqual(f_r + ["g:q@3"], left(b"column", {b"f": {b"q": None}}))
        self.assertEqual(f_q[:1] + f_r + ["g:q@3"], left(b"column at", {b"f": {b"q": None}}, timestamp=2))
        self.assertEqual(f_q[1:] + f_r + ["g:q@3"], left(b"newest", {b"f": {b"q": None}}, one_version=True))
        self.assertEqual(
            ["f:q@3", "f:q@1"] + f_r + ["g:q@3"], left(b"version", {b"f": {b"q": None}}, timestamp=2, one_version=True)
        )

    def test_counters_and_appends_answer_with_their_cells(self):
        def count(amount):
            values = {b"f": {b"n": struct.pack(">q", amount)}}
            _, (cell,) = self.client.mutate(self.table, Mutation(INCREMENT, self.row(), values))
            return struct.unpack(">q", cell.value)[0]

        self.assertEqual([5, 3, 3], [count(5), count(-2), count(0)])
        append = Mutation(APPEND, self.row(), {b"f": {b"t": b"ab"}, b"g": {b"t": b"x"}})
        self.client.mutate(self.table, append)
        _, cells = self.client.mutate(self.table, append)
        self.assertEqual([b"abab", b"xx"], [cell.value for cell in cells])

    def test_check_and_put(self):
        row = self.row()

        def check(expected, value, operator=EQUAL):
            condition = message(
                (1, row), (2, b"f"), (3, b"q"), (4, operator), (5, binary_comparator(expected))
            )
            return self.client.check_and_mutate(
                self.table, Mutation(PUT_MUTATION, row, {b"f": {b"q": value}}, timestamp=5), condition
            )

        self.assertTrue(check(b"", b"one"))
        self.assertFalse(check(b"", b"no"))
        self.assertFalse(check(b"other", b"no"))
        self.assertTrue(check(b"one", b"two"))
        self.assertEqual(["f:q@5=two"], self.client.get(self.table, row))
        # Less: what is expected is less than what is there.
        self.assertTrue(check(b"tw", b"three", operator=0))
        prefix = message((1, PACKAGE + "filter.PrefixFilter"), (2, message((1, row))))
        delete = Mutation(DELETE_MUTATION, row, {b"f": {b"q": None}})
        self.assertTrue(self.client.check_and_mutate(self.table, delete, message((1, row), (7, prefix))))
        self.assertEqual([], self.client.get(self.table, row))

    def fill(self, count):
        """Rows in each region; answers their keys in order."""
        keys = sorted(b"%c" % (ord("a") + n % 26) + self.row() + b"%04d" % n for n in range(count))
        regions = self.client.all_regions(self.table)
        calls = []
        for key in keys:
            (region,) = [one for one in regions if one.start <= key and (not one.stop or key < one.stop)]
            calls.append((region, Mutation(PUT_MUTATION, key, {b"f": {b"q": b"value of " + key}}, timestamp=5)))
        self.assertEqual([[]] * count, self.client.multi(calls))
        return keys

    def mine(self, rows):
        return [row[0].row for row in rows if self.row() in row[0].row]

    def test_scans_cross_regions(self):
        keys = self.fill(300)
        self.assertEqual(keys, self.mine(self.client.scan(self.table)))
        self.assertEqual(keys, self.mine(self.client.scan(self.table, rows=7)))
        self.assertEqual(keys, self.mine(self.client.scan(self.table, size=700)))
        self.assertEqual(keys[::-1], self.mine(self.client.scan(self.table, b"zz", reversed=True)))
        start, stop = keys[20], keys[200]
        self.assertEqual(keys[20:200], self.mine(self.client.scan(self.table, start, stop)))
        self.assertEqual(keys[200:20:-1], self.mine(self.client.scan(self.table, stop, start, reversed=True)))
        self.assertEqual([], self.mine(self.client.scan(self.table, start, stop, times=(6, 9))))
        self.assertEqual(180, len(self.mine(self.client.scan(self.table, start, stop, times=(5, 6), versions=3))))
        prefix = message((1, PACKAGE + "filter.PrefixFilter"), (2, message((1, b"k" + self.row()))))
        rows = self.client.scan(self.table, filter=prefix)
        self.assertEqual([key for key in keys if key[:1] == b"k"], [row[0].row for row in rows])

    def test_a_scanner_is_renewed_and_closed(self):
        keys = [key for key in self.fill(52) if key >= b"p"]
        region = self.client.locate(self.table, b"p")
        scan = Scan(self.client.server(region), region.name, b"p", b"", rows=2, metrics=True)
        found = [cells[0].row for cells, _ in scan.next()]
        self.assertEqual(2, len(found))
        self.assertEqual([], scan.next(renew=True))
        found += [cells[0].row for cells, _ in scan.next()]
        self.assertEqual(4, len(found))
        self.assertEqual(found, sorted(found))
        scan.next(close=True, rows=0)
        # Of one that was closed lately nothing more comes, and no error.
        self.assertEqual([], scan.next())
        scan.id = 1
        self.refused("UnknownScannerException", scan.next)
        whole = Scan(self.client.server(region), region.name, b"p", b"", metrics=True)
        self.assertEqual(keys, self.mine(whole.rows_of_region()))
        self.assertGreaterEqual(whole.seen["ROWS_SCANNED"], len(keys))

    def test_a_wide_row_comes_in_parts(self):
        row = self.row("z")
        values = {b"%04d" % n: b"v" * 1_000 for n in range(300)}
        self.put(row, {b"f": values}, timestamp=5)
        region = self.client.locate(self.table, row)
        scan = Scan(self.client.server(region), region.name, row, row + b"\0", size=50_000)
        parts = scan.next()
        self.assertTrue(parts[0][1], "the first part says that more follows")
        rest = scan.rows_of_region()
        cells = parts[0][0] + rest[0]
        self.assertEqual(sorted(values), [cell.qualifier for cell in cells])

    def test_a_batch_of_everything_over_regions(self):
        first, last = (self.client.locate(self.table, row) for row in (b"a", b"z"))
        self.put(self.row("a"), {b"f": {b"q": b"there"}}, timestamp=5)
        number = {b"f": {b"n": struct.pack(">q", 7)}}
        answers = self.client.multi(
            [
                (first, self.row("a")),
                (last, Mutation(PUT_MUTATION, self.row("z"), {b"f": {b"q": b"put"}}, timestamp=6)),
                (first, Mutation(INCREMENT, self.row("b"), number)),
                (first, self.row("c")),
                (last, Mutation(APPEND, self.row("y"), {b"f": {b"t": b"tail"}})),
                (last, Mutation(DELETE_MUTATION, self.row("x"), None)),
                (last, Mutation(PUT_MUTATION, self.row("z"), {b"nosuch": {b"q": b"v"}})),
            ]
        )
        self.assertEqual(["f:q@5=there"], [cell.text() for cell in answers[0]])
        self.assertEqual([], answers[1])
        self.assertEqual(struct.pack(">q", 7), answers[2][0].value)
        self.assertEqual([], answers[3])
        self.assertEqual(b"tail", answers[4][0].value)
        self.assertEqual([], answers[5])
        self.assertEqual(PACKAGE + "regionserver.NoSuchColumnFamilyException", answers[6][0])
        self.assertEqual(["f:q@6=put"], self.client.get(self.table, self.row("z")))

    def test_a_region_that_is_not_there_fails_alone(self):
        here = self.client.locate(self.table, b"a")
        gone = Region.__new__(Region)
        gone.name = self.table + b",q,1." + b"0" * 32 + b"."
        gone.address = here.address
        put = Mutation(PUT_MUTATION, self.row("a"), {b"f": {b"q": b"v"}}, timestamp=5)
        answers = self.client.multi([(gone, Mutation(PUT_MUTATION, b"q", {b"f": {b"q": b"v"}})), (here, put)])
        self.assertEqual(PACKAGE + "NotServingRegionException", answers[0][0])
        self.assertEqual([], answers[1])
        self.assertEqual(["f:q@5=v"], self.client.get(self.table, self.row("a")))
        self.refused("NotServingRegionException", lambda: self.client.get_in(gone, b"q"))
        self.refused("NotServingRegionException", Scan(self.client.server(gone), gone.name, b"", b"").next)

    def test_errors_leave_the_connection_alone(self):
        region = self.client.locate(self.table, b"a")
        self.refused(
            "regionserver.NoSuchColumnFamilyException",
            lambda: self.client.mutate(self.table, Mutation(PUT_MUTATION, b"a", {b"nosuch": {b"q": b"v"}})),
        )
        with self.assertRaises(RemoteError) as caught:
            self.client.server(region).call("NoSuchMethod", b"")
        self.assertEqual(PACKAGE + "DoNotRetryIOException", caught.exception.class_name)
        self.assertIn("java.lang.UnsupportedOperationException", caught.exception.text)
        self.put(b"a", {b"f": {b"n": b"four"}})
        increment = Mutation(INCREMENT, b"a", {b"f": {b"n": struct.pack(">q", 1)}})
        self.refused("DoNotRetryIOException", lambda: self.client.mutate(self.table, increment, region))
        self.put(b"a", {b"f": {b"n": b"and goes on"}}, timestamp=5)

    def test_calls_need_not_wait_for_each_other(self):
        region = self.client.locate(self.table, b"m")
        server = self.client.server(region)
        rows = [b"m" + self.row() + b"%d" % n for n in range(64)]
        for row in rows:
            self.put(row, {b"f": {b"q": row}}, timestamp=5)
        frames, calls = b"", []
        for row in rows:
            request = message((1, region_specifier(region.name)), (2, get_message(row)))
            frame, call = server.frame_of("Get", request)
            frames += frame
            calls.append(call)
        server.wire.send(frames)
        for row, call in reversed(list(zip(rows, calls))):
            reply, block = server.receive(call)
            self.assertIn(row, block or reply.one(1))

    def test_large_values_travel_whole(self):
        value = bytes(n * 31 + n // 977 & 0xFF for n in range(700_000))
        self.put(self.row(), {b"f": {b"q": value}}, timestamp=5)
        (text,) = self.client.get(self.table, self.row())
        self.assertEqual(value, text.split("=", 1)[1].encode("latin-1"))

    def test_tables_are_administered(self):
        name = self.table + b"-admin"
        self.drop(name)
        self.client.procedure("CreateTable", create_table(name, {"f": {}}))
        self.assertIn(name, self.tables())
        try:
            self.client.procedure("CreateTable", create_table(name, {"f": {}}))
            self.fail("made twice")
        except RemoteError as error:
            self.assertEqual(PACKAGE + "TableExistsException", error.class_name)
        except AssertionError as error:
            # HBase answers so when the procedure finds out.
            self.assertIn("TableExistsException", str(error))
        self.client.mutate(name, Mutation(PUT_MUTATION, b"r", {b"f": {b"q": b"v"}}, timestamp=5))
        self.client.procedure("DisableTable", message((1, table_name(name))))
        self.refused("NotServingRegionException", lambda: self.client.get(name, b"r"))
        self.client.procedure("EnableTable", message((1, table_name(name))))
        self.assertEqual(["f:q@5=v"], self.client.get(name, b"r"))
        self.drop(name)
        self.assertNotIn(name, self.tables())
        self.assertIsNone(self.client.locate(name, b"r"))

    def test_the_cluster_tells_of_itself(self):
        status = self.client.admin("GetClusterStatus", b"").within(1)
        self.assertTrue(status.all(2), "no live server")
        on = self.client.admin("SetBalancerRunning", message((1, True), (2, True)))
        self.assertIn(1, on)


class Plain(Calls, unittest.TestCase):
    """Cell blocks as they are."""


class Snappy(Calls, unittest.TestCase):
    """Cell blocks through snappy, both ways."""

    snappy = True


if __name__ == "__main__":
    unittest.main(verbosity=1)
