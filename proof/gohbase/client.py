"""What gohbase asks, request by request, and what it insists on in replies."""

import struct

from wire import (LATEST, Broken, Cell, Connection, Message, cell_of_message, expect, message, read_cells, server_at)

PUT, DELETE, DELETE_FAMILY_VERSION, DELETE_COLUMN, DELETE_FAMILY = 4, 8, 10, 12, 14
APPEND, INCREMENT, PUT_MUTATION, DELETE_MUTATION = 0, 1, 2, 3
MAX_RESULT_SIZE = 2_097_152
NUMBER_OF_ROWS = (1 << 31) - 1
META = b"hbase:meta,,1"


def region_specifier(name):
    return message((1, 1), (2, name))


class Region:
    """A region as its row in hbase:meta tells."""

    def __init__(self, cells):
        self.address = None
        info = None
        for cell in cells:
            if cell.qualifier == b"regioninfo":
                expect(cell.value[:4] == b"PBUF", "a region's info without its magic")
                info = Message(cell.value[4:])
                self.name = cell.row
            elif cell.qualifier == b"server" and cell.value:
                self.address = cell.value.decode()
        expect(info is not None, "a row of hbase:meta without a region")
        expect(self.address is not None, "a region without a server")
        table = info.within(2)
        namespace, qualifier = table.one(1), table.one(2)
        self.table = qualifier if namespace == b"default" else namespace + b":" + qualifier
        self.start, self.stop = info.one(3, b""), info.one(4, b"")
        expect(not info.one(5, 0), "a region that is offline")


class Mutation:
    """`values` are {family: {qualifier: value}}, as gohbase's programs have it; None is a whole family or row."""

    def __init__(self, kind, row, values, timestamp=None, durability=0, ttl=None, one_version=False):
        self.kind, self.row, self.values, self.timestamp = kind, row, values or {}, timestamp
        self.durability, self.ttl, self.one_version = durability, ttl, one_version

    def delete_types(self, qualifiers):
        """For a cell and for a message."""
        if self.kind != DELETE_MUTATION:
            return PUT, None
        if not qualifiers:
            return (DELETE_FAMILY_VERSION, 3) if self.one_version else (DELETE_FAMILY, 2)
        return (DELETE, 0) if self.one_version else (DELETE_COLUMN, 1)

    def cells(self):
        cells = []
        for family, qualifiers in self.values.items():
            kind, _ = self.delete_types(qualifiers)
            for qualifier, value in (qualifiers or {b"": b""}).items():
                timestamp = LATEST if self.timestamp is None else self.timestamp
                cells.append(Cell(self.row, family, qualifier, timestamp, kind, value or b""))
        return cells

    def columns(self):
        columns = []
        for family, qualifiers in self.values.items():
            _, kind = self.delete_types(qualifiers)
            values = [
                message((1, qualifier), (2, value), (3, self.timestamp), (4, kind))
                for qualifier, value in (qualifiers or {b"": None}).items()
            ]
            columns.append(message((1, family), (2, values)))
        return columns

    def message(self, cell_block):
        ttl = None if self.ttl is None else message((1, "_ttl"), (2, struct.pack(">Q", self.ttl)))
        return message(
            (1, self.row),
            (2, self.kind),
            (3, None if cell_block else self.columns()),
            (4, self.timestamp),
            (5, ttl),
            (6, self.durability),
            (8, len(self.cells()) if cell_block else None),
        )


def block_of(cells):
    return b"".join(cell.block() for cell in cells)


def get_message(row, families=None, exists=False, versions=None, times=None, filter=None, limit=None, offset=None):
    columns = [message((1, family), (2, qualifiers)) for family, qualifiers in (families or {}).items()]
    return message(
        (1, row),
        (2, columns),
        (4, filter),
        (5, message((1, times[0]), (2, times[1])) if times else b""),
        (6, versions),
        (8, limit),
        (9, offset),
        (10, True if exists else None),
    )


def result_cells(result, block, at=0):
    """A result's cells, those of the message and those beside it, and where the next result's begin."""
    inline = [cell_of_message(data) for data in result.all(1)]
    cells, at = read_cells(block, at, result.one(2, 0))
    return inline + cells, at


class Client:
    def __init__(self, quorum, snappy=False):
        self.quorum, self.snappy = quorum, snappy
        self.meta = Connection(server_at(quorum, "/hbase/meta-region-server"), "ClientService", snappy)
        self.master = Connection(server_at(quorum, "/hbase/master"), "MasterService", snappy)
        self.servers = {}

    def close(self):
        for connection in [self.meta, self.master, *self.servers.values()]:
            connection.close()

    # Look-ups.

    def locate(self, table, row):
        """The region of a row; None when there is no such table. It is asked whether it serves, as gohbase does."""
        scan = Scan(self.meta, META, table + b"," + row + b",:", table, {b"info": []}, reversed=True, close=True, rows=1)
        rows = scan.rows_of_region()
        if not rows:
            return None
        region = Region(rows[0])
        expect(region.table == table, f"looked up {table}, found {region.table}")
        expect(not region.stop or row < region.stop, "a hole in hbase:meta")
        self.probe(region)
        return region

    def all_regions(self, table):
        return [Region(row) for row in Scan(self.meta, META, table, table + b".", {b"info": []}).rows_of_region()]

    def server(self, region):
        if region.address not in self.servers:
            self.servers[region.address] = Connection(region.address, "ClientService", self.snappy)
        return self.servers[region.address]

    def probe(self, region):
        result, _ = self.get_in(region, region.start + bytes(17), exists=True)
        expect(3 in result, "an existence that is not told")

    # Calls.

    def get_in(self, region, row, **words):
        request = message((1, region_specifier(region.name)), (2, get_message(row, **words)))
        reply, block = self.server(region).call("Get", request)
        result = reply.within(1)
        expect(result is not None, "a Get without a result")
        cells, at = result_cells(result, block)
        expect(at == len(block), "cells that belong to nobody")
        return result, cells

    def get(self, table, row, **words):
        return [cell.text() for cell in self.get_in(self.locate(table, row), row, **words)[1]]

    def mutate(self, table, mutation, region=None):
        """By cell block, as gohbase sends what it does not batch."""
        region = region or self.locate(table, mutation.row)
        request = message((1, region_specifier(region.name)), (2, mutation.message(cell_block=True)))
        return self.mutated(region, request, block_of(mutation.cells()))

    def mutated(self, region, request, block=b""):
        reply, block = self.server(region).call("Mutate", request, block)
        result = reply.within(1)
        cells, at = result_cells(result, block) if result else ([], 0)
        expect(at == len(block), "cells that belong to nobody")
        return reply, cells

    def check_and_mutate(self, table, mutation, condition):
        """Without a cell block."""
        region = self.locate(table, mutation.row)
        request = message((1, region_specifier(region.name)), (2, mutation.message(cell_block=False)), (3, condition))
        reply, _ = self.mutated(region, request)
        expect(2 in reply, "a condition whose outcome is not told")
        return bool(reply.one(2))

    def multi(self, calls):
        """Of (region, mutation or row to get), all on one server; answers cells or an exception's (class, text) each."""
        by_region = {}
        for index, (region, call) in enumerate(calls):
            by_region.setdefault(region, []).append((index, call))
        actions, block = [], b""
        for region, some in by_region.items():
            ones = []
            for index, call in some:
                # No index is 0: that would be none.
                if isinstance(call, Mutation):
                    ones.append(message((1, index + 1), (2, call.message(cell_block=True))))
                    block += block_of(call.cells())
                else:
                    ones.append(message((1, index + 1), (3, get_message(call))))
            actions.append(message((1, region_specifier(region.name)), (3, ones)))
        reply, block = self.server(calls[0][0]).call("Multi", message((1, actions)), block)
        answers = [None] * len(calls)
        expect(len(reply.all(1)) == len(by_region), "not one result for each region")
        at = 0
        for region, data in zip(by_region, reply.all(1)):
            of_region = Message(data)
            if 2 in of_region:
                expect(1 not in of_region, "a region's exception and results together")
                exception = of_region.within(2)
                for index, _ in by_region[region]:
                    answers[index] = (exception.one(1).decode(), exception.one(2).decode())
                continue
            for one in of_region.all(1):
                one = Message(one)
                index = one.one(1, 0)
                expect(index > 0, "a result without an index")
                expect((2 in one) != (3 in one), "not either a result or an exception")
                expect(answers[index - 1] is None, "two answers to one action")
                if 3 in one:
                    exception = one.within(3)
                    answers[index - 1] = (exception.one(1).decode(), exception.one(2).decode())
                    continue
                answers[index - 1], at = result_cells(one.within(2), block, at)
        expect(at == len(block), "cells that belong to nobody")
        expect(None not in answers, "an action that is not answered")
        return answers

    def scan(self, table, start=b"", stop=b"", **words):
        """Over regions, forwards or backwards, as gohbase's scanner goes."""
        reverse = words.get("reversed", False)
        rows = []
        row = start
        while True:
            region = self.locate(table, row)
            scan = Scan(self.server(region), region.name, row, stop, **words)
            rows += scan.rows_of_region()
            if scan.over:
                return rows
            if reverse:
                if not region.start or stop and stop >= region.start:
                    return rows
                before = region.start
                row = before[:-1] if before[-1] == 0 else before[:-1] + bytes([before[-1] - 1]) + b"\xff" * 24
            else:
                if not region.stop or stop and stop <= region.stop:
                    return rows
                row = region.stop

    # Tables.

    def admin(self, method, request):
        reply, block = self.master.call(method, request)
        expect(not block, "the master answers with cells")
        return reply

    def procedure(self, method, request):
        """Starts what the master does in steps, and waits for its end."""
        reply = self.admin(method, request)
        expect(1 in reply, f"{method} has no procedure")
        while True:
            state = self.admin("getProcedureResult", message((1, reply.one(1))))
            if state.one(1) == 2:
                expect(5 not in state, f"{method} failed: {state.one(5)}")
                return
            expect(state.one(1) == 1, f"the procedure of {method} is not known")


class Scan:
    """A scan of one region: opened, gone on with by its id alone, closed when told."""

    def __init__(self, connection, region, start, stop, families=None, reversed=False, close=False, rows=NUMBER_OF_ROWS,
                 size=MAX_RESULT_SIZE, versions=None, times=None, filter=None, metrics=False, attributes=None):
        self.connection, self.region, self.close, self.rows, self.metrics = connection, region, close, rows, metrics
        self.id = None
        self.over = self.region_over = False
        self.seen = {}
        columns = [message((1, family), (2, qualifiers)) for family, qualifiers in (families or {}).items()]
        self.scan = message(
            (1, columns),
            (2, attributes),
            (3, start or None),
            (4, stop or None),
            (5, filter),
            (6, message((1, times[0]), (2, times[1])) if times else b""),
            (7, versions),
            (10, size),
            (15, True if reversed else None),
        )

    def request(self, close=None, renew=False, rows=None):
        return message(
            (1, region_specifier(self.region)),
            (2, self.scan if self.id is None else None),
            (3, self.id),
            (4, self.rows if rows is None else rows),
            (5, self.close if close is None else close),
            (7, True),
            (8, True),
            (9, self.metrics),
            (10, renew),
        )

    def next(self, **words):
        """[(cells, whether the row goes on)]."""
        reply, block = self.connection.call("Scan", self.request(**words))
        counts, partials = reply.numbers(1), reply.numbers(7)
        expect(len(counts) == len(partials), f"{len(counts)} results, {len(partials)} flags")
        results, at = [], 0
        for count, partial in zip(counts, partials):
            cells, at = read_cells(block, at, count)
            results.append((cells, bool(partial)))
        expect(at == len(block), "cells that belong to nobody")
        if 10 in reply:
            for pair in reply.within(10).all(1):
                pair = Message(pair)
                name = pair.one(1).decode()
                self.seen[name] = self.seen.get(name, 0) + pair.one(2, 0)
        if reply.one(8, 0):
            self.id = reply.one(2, self.id)
        else:
            self.region_over = True
            # Not told means more.
            self.over = not reply.one(3, 1)
        return results

    def rows_of_region(self):
        rows, part = [], []
        while not self.region_over:
            for cells, partial in self.next():
                if part and cells and part[0].row != cells[0].row:
                    rows.append(part)
                    part = []
                part = part + cells
                if not partial:
                    rows.append(part)
                    part = []
            if self.close:
                break
        return rows + ([part] if part else [])


__all__ = ["Broken", "Client", "Mutation", "Region", "Scan"]
