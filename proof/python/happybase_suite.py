"""happybase through HBase's own Thrift server: what a Python program does with tables.

Run as `happybase_suite.py PORT [unittest's words]`, the Thrift server listening on that port of this machine.
"""

import struct
import sys
import unittest

import happybase
from Hbase_thrift import AlreadyExists, IOError as ThriftIOError, TAppend, TScan

PORT = int(sys.argv.pop(1))


def connect():
    return happybase.Connection("127.0.0.1", PORT, timeout=60_000)


class Suite(unittest.TestCase):
    """One connection and one table for all tests; each test has rows of its own."""

    @classmethod
    def setUpClass(cls):
        cls.connection = connect()
        cls.name = b"happybase"
        if cls.name in cls.connection.tables():
            cls.connection.delete_table(cls.name, disable=True)
        cls.connection.create_table(cls.name, {"f": {"max_versions": 5}, "g": {"max_versions": 1}})
        cls.table = cls.connection.table(cls.name)

    @classmethod
    def tearDownClass(cls):
        cls.connection.delete_table(cls.name, disable=True)
        cls.connection.close()

    def row(self, suffix=""):
        return f"{self.id().split('.')[-1]}-{suffix}".encode()

    def fill(self, count):
        """Rows 000, 001, ... of this test, each with f:number, f:parity, g:q."""
        with self.table.batch(timestamp=7) as batch:
            for number in range(count):
                parity = b"odd" if number % 2 else b"even"
                batch.put(
                    self.row(f"{number:03}"), {b"f:number": b"%d" % number, b"f:parity": parity, b"g:q": b"x"}
                )

    def numbers(self, **words):
        return [int(row[b"f:number"]) for _, row in self.table.scan(row_prefix=self.row(), **words)]

    def test_tables_are_made_listed_switched_and_deleted(self):
        name = b"happybase-admin"
        if name in self.connection.tables():
            self.connection.delete_table(name, disable=True)
        self.connection.create_table(
            name,
            {
                "plain": {},
                "rich": {"max_versions": 9, "compression": "GZ", "in_memory": True, "bloom_filter_type": "ROWCOL",
                         "block_cache_enabled": True, "time_to_live": 86400},
            },
        )
        self.assertIn(name, self.connection.tables())
        with self.assertRaises(AlreadyExists):
            self.connection.create_table(name, {"f": {}})
        families = self.connection.table(name).families()
        self.assertEqual({b"plain", b"rich"}, set(families))
        rich = families[b"rich"]
        self.assertEqual(
            (9, b"GZ", True, b"ROWCOL", 86400),
            (rich["max_versions"], rich["compression"], rich["in_memory"], rich["bloom_filter_type"], rich["time_to_live"]),
        )
        # Thrift's own default for versions is not HBase's.
        self.assertEqual((3, b"NONE"), (families[b"plain"]["max_versions"], families[b"plain"]["compression"]))

        table = self.connection.table(name)
        table.put(b"r", {b"plain:q": b"v"})
        self.assertTrue(self.connection.is_table_enabled(name))
        self.connection.disable_table(name)
        self.assertFalse(self.connection.is_table_enabled(name))
        with self.assertRaises(ThriftIOError):
            self.connection.delete_table(b"happybase-nosuch")
        self.connection.enable_table(name)
        self.assertEqual({b"plain:q": b"v"}, table.row(b"r"))
        with self.assertRaises(ThriftIOError):
            self.connection.delete_table(name)
        self.connection.delete_table(name, disable=True)
        self.assertNotIn(name, self.connection.tables())

    def test_regions_have_a_place(self):
        (region,) = self.table.regions()
        self.assertEqual((b"", b""), (region["start_key"], region["end_key"]))
        self.assertTrue(region["name"].startswith(self.name + b",,"))
        self.assertGreater(region["port"], 0)
        self.assertTrue(region["server_name"])

    def test_a_put_is_read_back(self):
        self.table.put(self.row(), {b"f:a": b"1", b"f:": b"", b"g:b": bytes(range(256))}, timestamp=5)
        self.assertEqual({b"f:a": b"1", b"f:": b"", b"g:b": bytes(range(256))}, self.table.row(self.row()))
        self.assertEqual({b"f:a": b"1"}, self.table.row(self.row(), columns=[b"f:a", b"f:none"]))
        self.assertEqual({b"f:a": b"1", b"f:": b""}, self.table.row(self.row(), columns=[b"f"]))
        self.assertEqual({b"f:a": (b"1", 5)}, self.table.row(self.row(), [b"f:a"], include_timestamp=True))
        self.assertEqual({}, self.table.row(self.row("none")))

    def test_versions_are_kept_and_chosen(self):
        for version in range(1, 8):
            self.table.put(self.row(), {b"f:q": b"v%d" % version}, timestamp=version)
        self.assertEqual([b"v7", b"v6", b"v5", b"v4", b"v3"], self.table.cells(self.row(), b"f:q"))
        self.assertEqual([b"v7", b"v6"], self.table.cells(self.row(), b"f:q", versions=2))
        self.assertEqual(
            [(b"v4", 4), (b"v3", 3)],
            self.table.cells(self.row(), b"f:q", versions=2, timestamp=5, include_timestamp=True),
        )
        self.assertEqual({b"f:q": b"v4"}, self.table.row(self.row(), timestamp=5))

    def test_rows_are_read_together(self):
        self.fill(20)
        wanted = [self.row(f"{number:03}") for number in (3, 17, 99, 4)]
        rows = dict(self.table.rows(wanted, columns=[b"f:number"]))
        self.assertEqual({wanted[0]: {b"f:number": b"3"}, wanted[1]: {b"f:number": b"17"}, wanted[3]: {b"f:number": b"4"}}, rows)

    def test_deletes_hide_columns_families_rows_and_the_past(self):
        for suffix in ("row", "columns", "family", "past"):
            for version in (1, 2, 3):
                self.table.put(self.row(suffix), {b"f:q": b"v%d" % version, b"f:r": b"r", b"g:q": b"g"}, timestamp=version)
        self.table.delete(self.row("row"))
        self.assertEqual({}, self.table.row(self.row("row")))
        self.table.delete(self.row("columns"), columns=[b"f:q", b"g:q"])
        self.assertEqual({b"f:r": b"r"}, self.table.row(self.row("columns")))
        self.table.delete(self.row("family"), columns=[b"f"])
        self.assertEqual({b"g:q": b"g"}, self.table.row(self.row("family")))
        self.table.delete(self.row("past"), columns=[b"f:q"], timestamp=2)
        self.assertEqual([b"v3"], self.table.cells(self.row("past"), b"f:q"))

    def test_batches_are_sent_by_size_and_at_the_end(self):
        with self.table.batch(batch_size=10) as batch:
            for number in range(95):
                batch.put(self.row(f"{number:03}"), {b"f:number": b"%d" % number})
            batch.delete(self.row("003"))
        self.assertEqual([number for number in range(95) if number != 3], self.numbers())
        with self.assertRaises(RuntimeError):
            with self.table.batch(transaction=True) as batch:
                batch.put(self.row("lost"), {b"f:number": b"1"})
                raise RuntimeError("nothing of it is sent")
        self.assertEqual({}, self.table.row(self.row("lost")))

    def test_a_batch_with_a_fault_is_an_error(self):
        with self.assertRaises(ThriftIOError) as caught:
            self.table.put(self.row(), {b"nosuch:q": b"v"})
        self.assertIn(b"nosuch", caught.exception.message if isinstance(caught.exception.message, bytes)
                      else caught.exception.message.encode())
        with self.assertRaises(ThriftIOError):
            self.connection.table(b"happybase-nosuch").row(b"r")
        self.table.put(self.row(), {b"f:q": b"and goes on"})
        self.assertEqual({b"f:q": b"and goes on"}, self.table.row(self.row()))

    def test_scans_have_bounds_limits_and_directions(self):
        self.fill(50)
        self.assertEqual(list(range(50)), self.numbers())
        self.assertEqual(list(range(50)), self.numbers(batch_size=7))
        self.assertEqual([0, 1, 2], self.numbers(limit=3))
        rows = self.table.scan(row_start=self.row("010"), row_stop=self.row("013"))
        self.assertEqual([self.row("010"), self.row("011"), self.row("012")], [key for key, _ in rows])
        back = self.table.scan(row_start=self.row("012"), row_stop=self.row("009"), reverse=True)
        self.assertEqual([self.row("012"), self.row("011"), self.row("010")], [key for key, _ in back])
        (_, row), = self.table.scan(row_prefix=self.row("007"), columns=[b"f:parity", b"g"], include_timestamp=True)
        self.assertEqual({b"f:parity": (b"odd", 7), b"g:q": (b"x", 7)}, row)
        self.assertEqual([], list(self.table.scan(row_prefix=self.row(), timestamp=7)))
        self.assertEqual(50, len(list(self.table.scan(row_prefix=self.row(), timestamp=8))))
        (_, row), = self.table.scan(row_prefix=self.row("007"), sorted_columns=True)
        self.assertEqual([b"f:number", b"f:parity", b"g:q"], list(row))
        parts = [row for _, row in self.table.scan(row_prefix=self.row("007"), scan_batching=2)]
        self.assertEqual([2, 1], [len(part) for part in parts])

    def test_filters_are_written_as_text(self):
        self.fill(20)
        for text, expected in [
            ("SingleColumnValueFilter('f', 'parity', =, 'binary:odd')", list(range(1, 20, 2))),
            ("SingleColumnValueFilter('f', 'parity', =, 'binary:odd') AND PageFilter(3)", [1, 3, 5]),
            ("ValueFilter(=, 'regexstring:^1[0-4]$')", [10, 11, 12, 13, 14]),
            ("ColumnPrefixFilter('num')", list(range(20))),
            ("RowFilter(=, 'substring:-01')", list(range(10, 20))),
            ("QualifierFilter(=, 'binary:number') AND ValueFilter(<, 'binary:11')", [0, 1, 10]),
            ("SKIP ValueFilter(!=, 'binary:odd')", list(range(0, 20, 2))),
            ("WHILE ValueFilter(!=, 'binary:4')", [0, 1, 2, 3]),
            (f"PrefixFilter('{self.row().decode()}00') AND ColumnRangeFilter('n', true, 'o', false)", list(range(10))),
            ("MultipleColumnPrefixFilter('n', 'zz')", list(range(20))),
        ]:
            with self.subTest(text):
                self.assertEqual(expected, self.numbers(filter=text))
        keys = self.table.scan(row_prefix=self.row(), filter="KeyOnlyFilter() AND FirstKeyOnlyFilter()")
        self.assertEqual([{b"f:number": b""}] * 20, [row for _, row in keys])

    def test_counters_count(self):
        self.assertEqual(0, self.table.counter_get(self.row(), b"f:n"))
        self.assertEqual(1, self.table.counter_inc(self.row(), b"f:n"))
        self.assertEqual(11, self.table.counter_inc(self.row(), b"f:n", 10))
        self.assertEqual(8, self.table.counter_dec(self.row(), b"f:n", 3))
        self.table.counter_set(self.row(), b"f:n", 1 << 40)
        self.assertEqual((1 << 40) + 1, self.table.counter_inc(self.row(), b"f:n"))
        self.assertEqual(struct.pack(">q", (1 << 40) + 1), self.table.row(self.row())[b"f:n"])

    def test_what_thrift_has_beyond_happybase(self):
        client = self.connection.client
        self.fill(5)
        append = TAppend(table=self.name, row=self.row("000"), columns=[b"f:number"], values=[b" and more"])
        self.assertEqual([b"0 and more"], [cell.value for cell in client.append(append)])
        check = client.checkAndPut
        put = [happybase.batch.Mutation(isDelete=False, column=b"f:number", value=b"new")]
        self.assertFalse(check(self.name, self.row("001"), b"f:number", b"old", put[0], {}))
        self.assertTrue(check(self.name, self.row("001"), b"f:number", b"1", put[0], {}))
        self.assertEqual(b"new", self.table.row(self.row("001"))[b"f:number"])
        scanner = client.scannerOpenWithScan(self.name, TScan(startRow=self.row("003"), caching=1), {})
        self.assertEqual(self.row("003"), client.scannerGet(scanner)[0].row)
        self.assertEqual(self.row("004"), client.scannerGetList(scanner, 1)[0].row)
        client.scannerClose(scanner)

    def test_a_compaction_is_asked_for(self):
        self.fill(5)
        self.connection.compact_table(self.name)
        self.connection.compact_table(self.name, major=True)
        self.assertEqual(list(range(5)), self.numbers())

    def test_a_pool_shares_connections(self):
        pool = happybase.ConnectionPool(size=2, host="127.0.0.1", port=PORT)
        for number in range(4):
            with pool.connection() as connection:
                connection.table(self.name).put(self.row(), {b"f:q": b"%d" % number})
        with pool.connection() as connection:
            self.assertEqual({b"f:q": b"3"}, connection.table(self.name).row(self.row()))


if __name__ == "__main__":
    unittest.main(verbosity=1)
