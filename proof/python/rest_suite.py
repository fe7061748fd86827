"""HBase's own REST server before the server under test: what a program over HTTP does with tables.

Run as `rest_suite.py PORT [unittest's words]`, the REST server listening on that port of this machine.
"""

import base64
import json
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

PORT = int(sys.argv.pop(1))
JSON = "application/json"
TABLE = "rest"


def call(method, path, body=None, accept=JSON, content=JSON):
    """The status, the headers and the body of a response; an error's status is no exception."""
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data=data, method=method)
    request.add_header("Accept", accept)
    if data is not None:
        request.add_header("Content-Type", content)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def decoded(text):
    return base64.b64decode(text)


def cells(body):
    """Row, column and value of each cell of a CellSet in JSON."""
    return [
        (decoded(row["key"]), decoded(cell["column"]), decoded(cell["$"]))
        for row in json.loads(body)["Row"]
        for cell in row["Cell"]
    ]


def cell_set(*rows):
    """A CellSet of (row, {column: value}) or (row, {column: value}, timestamp)."""
    out = []
    for key, columns, *timestamp in rows:
        stamp = {"timestamp": timestamp[0]} if timestamp else {}
        row = [{"column": encoded(column), "$": encoded(value), **stamp} for column, value in columns.items()]
        out.append({"key": encoded(key), "Cell": row})
    return {"Row": out}


class Suite(unittest.TestCase):
    """One table for all tests; each test has rows of its own, which begin with its name."""

    @classmethod
    def setUpClass(cls):
        call("DELETE", f"/{TABLE}/schema")
        schema = {"name": TABLE, "ColumnSchema": [{"name": "f", "VERSIONS": "5"}, {"name": "g"}]}
        status, _, body = call("PUT", f"/{TABLE}/schema", schema)
        assert status == 201, (status, body)

    @classmethod
    def tearDownClass(cls):
        call("DELETE", f"/{TABLE}/schema")

    def row(self, suffix=""):
        return f"{self.id().split('.')[-1]}-{suffix}"

    def put(self, *rows):
        status, _, body = call("PUT", f"/{TABLE}/{self.row()}", cell_set(*rows))
        self.assertEqual(status, 200, body)

    def get(self, path, **words):
        status, _, body = call("GET", f"/{TABLE}/{path}", **words)
        self.assertEqual(status, 200, body)
        return body

    def test_cluster_version_and_status(self):
        self.assertIn("2.6", json.loads(call("GET", "/version/cluster")[2])["Version"])
        status = json.loads(call("GET", "/status/cluster")[2])
        self.assertEqual(len(status["LiveNodes"]), 1)
        self.assertGreaterEqual(status["regions"], 2)

    def test_tables_are_listed_described_and_deleted(self):
        call("DELETE", "/rest-other/schema")
        schema = {"name": "rest-other", "ColumnSchema": [{"name": "h", "TTL": "3600", "COMPRESSION": "GZ"}]}
        self.assertEqual(call("PUT", "/rest-other/schema", schema)[0], 201)
        names = {table["name"] for table in json.loads(call("GET", "/")[2])["table"]}
        self.assertLessEqual({TABLE, "rest-other"}, names)
        family = json.loads(call("GET", "/rest-other/schema")[2])["ColumnSchema"][0]
        self.assertEqual(
            (family["name"], family["COMPRESSION"], family["TTL"].split()[0]), ("h", "GZ", "3600")
        )
        more = {"name": "rest-other", "ColumnSchema": [{"name": "i"}]}
        self.assertEqual(call("POST", "/rest-other/schema", more)[0], 200)
        families = json.loads(call("GET", "/rest-other/schema")[2])["ColumnSchema"]
        self.assertEqual([family["name"] for family in families], ["h", "i"])
        regions = json.loads(call("GET", "/rest-other/regions")[2])["Region"]
        self.assertEqual(len(regions), 1)
        self.assertEqual(call("DELETE", "/rest-other/schema")[0], 200)
        self.assertEqual(call("GET", "/rest-other/schema")[0], 404)

    def test_namespaces_are_made_listed_and_dropped(self):
        call("DELETE", "/namespaces/rest_space")
        self.assertEqual(call("POST", "/namespaces/rest_space", {"properties": {}})[0], 201)
        self.assertIn("rest_space", json.loads(call("GET", "/namespaces")[2])["Namespace"])
        self.assertEqual(call("DELETE", "/namespaces/rest_space")[0], 200)
        self.assertNotIn("rest_space", json.loads(call("GET", "/namespaces")[2])["Namespace"])

    def test_a_row_is_put_and_got_in_json_xml_and_bytes(self):
        row = self.row("1")
        self.put((row, {"f:a": "one", "g:b": b"\x00\xff"}))
        self.assertEqual(
            cells(self.get(row)), [(row.encode(), b"f:a", b"one"), (row.encode(), b"g:b", b"\x00\xff")]
        )
        tree = ElementTree.fromstring(self.get(row, accept="text/xml"))
        found = [(decoded(cell.get("column")), decoded(cell.text)) for cell in tree.iter("Cell")]
        self.assertEqual(found, [(b"f:a", b"one"), (b"g:b", b"\x00\xff")])
        self.assertEqual(self.get(f"{row}/g:b", accept="application/octet-stream"), b"\x00\xff")
        self.assertEqual(call("GET", f"/{TABLE}/{self.row('absent')}")[0], 404)

    def test_bytes_and_xml_are_put(self):
        row = self.row("1")
        stream = "application/octet-stream"
        self.assertEqual(call("PUT", f"/{TABLE}/{row}/f:raw", b"\x01\x02", content=stream)[0], 200)
        text = (
            f'<CellSet><Row key="{encoded(row)}"><Cell column="{encoded("f:xml")}">{encoded("x")}</Cell></Row></CellSet>'
        )
        self.assertEqual(call("PUT", f"/{TABLE}/{row}", text.encode(), content="text/xml")[0], 200)
        self.assertEqual([value for _, _, value in cells(self.get(row))], [b"\x01\x02", b"x"])

    def test_versions_and_times(self):
        row = self.row("1")
        for time in (10, 20, 30):
            self.put((row, {"f:a": str(time)}, time))
        values = [value for _, _, value in cells(self.get(f"{row}/f:a?v=2"))]
        self.assertEqual(values, [b"30", b"20"])
        values = [value for _, _, value in cells(self.get(f"{row}/f:a/10,30?v=5"))]
        self.assertEqual(values, [b"20", b"10"])
        self.assertEqual([value for _, _, value in cells(self.get(f"{row}/f:a/21"))], [b"20"])

    def test_columns_rows_and_versions_are_deleted(self):
        row = self.row("1")
        self.put((row, {"f:a": "1", "f:b": "2", "g:c": "3"}))
        self.assertEqual(call("DELETE", f"/{TABLE}/{row}/f:a")[0], 200)
        self.assertEqual([column for _, column, _ in cells(self.get(row))], [b"f:b", b"g:c"])
        self.assertEqual(call("DELETE", f"/{TABLE}/{row}/g")[0], 200)
        self.assertEqual([column for _, column, _ in cells(self.get(row))], [b"f:b"])
        self.assertEqual(call("DELETE", f"/{TABLE}/{row}")[0], 200)
        self.assertEqual(call("GET", f"/{TABLE}/{row}")[0], 404)

    def test_a_prefix_and_several_rows_are_read(self):
        self.put(*[(self.row(f"{number}"), {"f:a": str(number)}) for number in range(5)])
        values = [value for _, _, value in cells(self.get(f"{self.row()}*"))]
        self.assertEqual(values, [b"0", b"1", b"2", b"3", b"4"])
        words = "&".join(f"row={self.row(number)}" for number in ("3", "1", "absent"))
        self.assertEqual([value for _, _, value in cells(self.get(f"multiget?{words}"))], [b"3", b"1"])

    def test_a_scanner_is_opened_read_to_its_end_and_deleted(self):
        self.put(*[(self.row(f"{number:02}"), {"f:a": str(number), "g:b": "x"}) for number in range(25)])
        words = {
            "batch": 4,
            "startRow": encoded(self.row()),
            "endRow": encoded(self.row("~")),
            "column": [encoded("f:a")],
            "filter": json.dumps(
                {
                    "type": "ValueFilter",
                    "op": "NOT_EQUAL",
                    "comparator": {"type": "BinaryComparator", "value": encoded("7")},
                }
            ),
        }
        status, headers, body = call("PUT", f"/{TABLE}/scanner", words)
        self.assertEqual(status, 201, body)
        path = urllib.parse.urlparse(headers["Location"]).path
        values = []
        while True:
            status, _, body = call("GET", path)
            if status == 204:
                break
            self.assertEqual(status, 200, body)
            values += [value for _, _, value in cells(body)]
        self.assertEqual(values, [str(number).encode() for number in range(25) if number != 7])
        self.assertEqual(call("DELETE", path)[0], 200)
        self.assertEqual(call("GET", path)[0], 404)

    def test_a_stateless_scan_has_limits_ranges_and_a_filter(self):
        self.put(*[(self.row(f"{number}"), {"f:a": str(number), "f:b": "x"}) for number in range(9)])
        words = urllib.parse.urlencode(
            {"startrow": self.row("2"), "endrow": self.row("8"), "limit": 3, "column": "f:a"}
        )
        body = self.get(f"*?{words}")
        self.assertEqual([value for _, _, value in cells(body)], [b"2", b"3", b"4"])
        words = urllib.parse.urlencode(
            {"startrow": self.row("8"), "endrow": self.row("2"), "reversed": "true", "limit": 2, "column": "f:a"}
        )
        self.assertEqual([value for _, _, value in cells(self.get(f"*?{words}"))], [b"8", b"7"])
        words = urllib.parse.urlencode(
            {"startrow": self.row(), "endrow": self.row("~"), "filter": "ValueFilter(=, 'binary:5')"}
        )
        self.assertEqual([value for _, _, value in cells(self.get(f"*?{words}"))], [b"5"])

    def test_a_put_and_a_delete_are_checked(self):
        row = self.row("1")
        self.put((row, {"f:a": "old"}))
        checked = {"Row": [{"key": encoded(row), "Cell": [
            {"column": encoded("f:a"), "$": encoded("new")}, {"column": encoded("f:a"), "$": encoded("other")},
        ]}]}
        self.assertEqual(call("PUT", f"/{TABLE}/{row}?check=put", checked)[0], 304)
        checked["Row"][0]["Cell"][1]["$"] = encoded("old")
        self.assertEqual(call("PUT", f"/{TABLE}/{row}?check=put", checked)[0], 200)
        self.assertEqual(self.get(f"{row}/f:a", accept="application/octet-stream"), b"new")
        self.assertEqual(
            call("PUT", f"/{TABLE}/{row}/f:a?check=delete", cell_set((row, {"f:a": "old"})))[0], 304
        )
        self.assertEqual(
            call("PUT", f"/{TABLE}/{row}/f:a?check=delete", cell_set((row, {"f:a": "new"})))[0], 200
        )
        self.assertEqual(call("GET", f"/{TABLE}/{row}")[0], 404)

    def test_a_value_is_appended_and_a_counter_incremented(self):
        row = self.row("1")
        for text in ("one ", "two"):
            self.assertEqual(
                call("PUT", f"/{TABLE}/{row}?check=append", cell_set((row, {"f:a": text})))[0], 200
            )
        self.assertEqual(self.get(f"{row}/f:a", accept="application/octet-stream"), b"one two")
        for _ in range(3):
            self.assertEqual(
                call("PUT", f"/{TABLE}/{row}?check=increment", cell_set((row, {"f:n": "5"})))[0], 200
            )
        self.assertEqual(self.get(f"{row}/f:n", accept="application/octet-stream"), (15).to_bytes(8, "big"))

    def test_errors_have_the_status_of_the_gateway(self):
        self.assertEqual(call("GET", "/rest-no-such-table/row")[0], 404)
        self.assertEqual(
            call("PUT", f"/{TABLE}/{self.row('1')}", cell_set((self.row("1"), {"nofamily:a": "1"})))[0], 404
        )
        self.assertEqual(call("PUT", f"/{TABLE}/{self.row('1')}", b"{", content=JSON)[0], 500)


if __name__ == "__main__":
    unittest.main()
