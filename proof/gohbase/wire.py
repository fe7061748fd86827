"""The bytes that gohbase sends and the way it reads replies, by hand.

Facts: the order of fields, what is left out, and what is insisted on are gohbase's as of 2026; none of its code is here.
Every number in a message below is a field number of HBase's protocol.
"""

import socket
import struct

KEY_VALUE_CODEC = "org.apache.hadoop.hbase.codec.KeyValueCodec"
SNAPPY_CODEC = "org.apache.hadoop.io.compress.SnappyCodec"
SNAPPY_CHUNK = 256 * 1024 * 5 // 6 - 32
LATEST = (1 << 63) - 1


class Broken(AssertionError):
    """What gohbase would not bear: it gives up the connection, or panics."""


class RemoteError(Exception):
    """An exception of HBase's; gohbase decides by its class name and its text."""

    def __init__(self, class_name, text):
        super().__init__(f"{class_name}: {text}")
        self.class_name = class_name
        self.text = text


def expect(well, what):
    if not well:
        raise Broken(what)


# Messages.


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields):
    """Of (number, value) in order; None is left out, a list is repeated, a bool or an int is a varint."""
    out = bytearray()
    for number, value in fields:
        for one in value if isinstance(value, list) else [value]:
            if one is None:
                continue
            if isinstance(one, int):
                out += varint(number << 3) + varint(int(one))
            else:
                data = one.encode() if isinstance(one, str) else one
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def read_varint(data, at):
    number = shift = 0
    while True:
        expect(at < len(data) and shift < 70, "a varint that does not end")
        number |= (data[at] & 0x7F) << shift
        at += 1
        shift += 7
        if data[at - 1] < 0x80:
            return number & (1 << 64) - 1, at


def delimited(data, at):
    length, at = read_varint(data, at)
    expect(at + length <= len(data), "a message that is longer than its frame")
    return data[at : at + length], at + length


class Message:
    """A reply: fields by number."""

    def __init__(self, data):
        self.fields = {}
        at = 0
        while at < len(data):
            key, at = read_varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == 0:
                value, at = read_varint(data, at)
            elif wire == 2:
                value, at = delimited(data, at)
            elif wire in (1, 5):
                width = 8 if wire == 1 else 4
                value, at = data[at : at + width], at + width
            else:
                raise Broken(f"wire type {wire}")
            self.fields.setdefault(number, []).append(value)

    def __contains__(self, number):
        return number in self.fields

    def all(self, number):
        return self.fields.get(number, [])

    def one(self, number, default=None):
        return self.fields.get(number, [default])[-1]

    def within(self, number):
        return Message(self.one(number)) if number in self else None

    def numbers(self, number):
        """Repeated numbers, packed or not."""
        numbers = []
        for value in self.all(number):
            if isinstance(value, int):
                numbers.append(value)
                continue
            at = 0
            while at < len(value):
                one, at = read_varint(value, at)
                numbers.append(one)
        return numbers


# Cells.


class Cell:
    def __init__(self, row, family, qualifier, timestamp, kind, value):
        self.row, self.family, self.qualifier = row, family, qualifier
        self.timestamp, self.kind, self.value = timestamp, kind, value

    def block(self):
        key = struct.pack(">H", len(self.row)) + self.row + struct.pack(">B", len(self.family)) + self.family
        key += self.qualifier + struct.pack(">QB", self.timestamp, self.kind)
        return struct.pack(">III", 8 + len(key) + len(self.value), len(key), len(self.value)) + key + self.value

    def text(self):
        at = f"@{self.timestamp}" if self.timestamp < 1_000_000 else ""
        return f"{self.family.decode()}:{self.qualifier.decode()}{at}={self.value.decode('latin-1')}"


def read_cell(data, at):
    expect(at + 12 <= len(data), "a cell block that ends within a cell's lengths")
    whole, key_length, value_length = struct.unpack_from(">III", data, at)
    expect(whole == 8 + key_length + value_length, f"a cell of {whole} bytes with parts of {key_length}, {value_length}")
    expect(at + 4 + whole <= len(data), "a cell block that ends within a cell")
    key = data[at + 12 : at + 12 + key_length]
    value = data[at + 12 + key_length : at + 4 + whole]
    row_length = struct.unpack_from(">H", key)[0]
    row = key[2 : 2 + row_length]
    family_length = key[2 + row_length]
    family = key[3 + row_length : 3 + row_length + family_length]
    qualifier = key[3 + row_length + family_length : -9]
    timestamp, kind = struct.unpack(">QB", key[-9:])
    return Cell(row, family, qualifier, timestamp, kind, value), at + 4 + whole


def read_cells(data, at, count):
    cells = []
    for _ in range(count):
        cell, at = read_cell(data, at)
        cells.append(cell)
    return cells, at


def cell_of_message(data):
    proto = Message(data)
    return Cell(proto.one(1, b""), proto.one(2, b""), proto.one(3, b""), proto.one(4, 0), proto.one(5, 0), proto.one(6, b""))


# Snappy, in Hadoop's blocks.


def snappy_literal(data):
    out = bytearray()
    for at in range(0, len(data), 60):
        piece = data[at : at + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    return bytes(out)


def snappy_encode(data):
    """Literals, and copies of two-byte offset for what stood before."""
    out = bytearray(varint(len(data)))
    seen = {}
    at = literal = 0
    while at + 4 <= len(data):
        word = data[at : at + 4]
        before = seen.get(word)
        seen[word] = at
        if before is None or at - before > 0xFFFF:
            at += 1
            continue
        length = 4
        while length < 64 and at + length < len(data) and data[before + length] == data[at + length]:
            length += 1
        out += snappy_literal(data[literal:at])
        out += struct.pack("<BH", length - 1 << 2 | 2, at - before)
        at += length
        literal = at
    return bytes(out + snappy_literal(data[literal:]))


def snappy_decode(data):
    length, at = read_varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            size = tag >> 2
            if size >= 60:
                extra = size - 59
                size = int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + size + 1]
            at += size + 1
            continue
        if tag & 3 == 1:
            size, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
            at += 1
        elif tag & 3 == 2:
            size, offset = (tag >> 2) + 1, struct.unpack_from("<H", data, at)[0]
            at += 2
        else:
            size, offset = (tag >> 2) + 1, struct.unpack_from("<I", data, at)[0]
            at += 4
        expect(0 < offset <= len(out), "a copy of what never was")
        for _ in range(size):
            out.append(out[-offset])
    expect(len(out) == length, f"a chunk of {len(out)} bytes that says {length}")
    return bytes(out)


def compress(data):
    out = struct.pack(">I", len(data))
    for at in range(0, len(data), SNAPPY_CHUNK):
        chunk = snappy_encode(data[at : at + SNAPPY_CHUNK])
        out += struct.pack(">I", len(chunk)) + chunk
    return out


def decompress(data):
    out = b""
    at = 0
    while at < len(data):
        (block,) = struct.unpack_from(">I", data, at)
        at += 4
        so_far = 0
        while so_far < block:
            expect(at + 4 <= len(data), "a block without its chunk")
            (size,) = struct.unpack_from(">I", data, at)
            expect(at + 4 + size <= len(data), "a chunk that is cut")
            chunk = snappy_decode(data[at + 4 : at + 4 + size])
            at += 4 + size
            so_far += len(chunk)
            out += chunk
        expect(so_far == block, f"{so_far} bytes in a block of {block}")
    return out


# ZooKeeper.


class Wire:
    """A socket, read to the exact byte."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def send(self, data):
        self.socket.sendall(data)

    def read(self, count):
        out = bytearray()
        while len(out) < count:
            data = self.socket.recv(count - len(out))
            expect(data, "the connection was closed")
            out += data
        return bytes(out)

    def frame(self):
        (length,) = struct.unpack(">I", self.read(4))
        return self.read(length)

    def close(self):
        self.socket.close()


def znode(quorum, path):
    """A session of its own for each look-up, as gohbase has it; answers a node's data."""
    wire = Wire(quorum)
    try:
        hello = struct.pack(">iqiq", 0, 0, 30_000, 0) + struct.pack(">i", 16) + bytes(16)
        wire.send(struct.pack(">I", len(hello)) + hello)
        version, timeout, session = struct.unpack_from(">iiq", wire.frame())
        expect(version == 0 and timeout > 0 and session != 0, "no ZooKeeper session")
        name = path.encode()
        get = struct.pack(">iii", 1, 4, len(name)) + name + b"\0"
        wire.send(struct.pack(">I", len(get)) + get)
        reply = wire.frame()
        xid, _, error = struct.unpack_from(">iqi", reply)
        expect((xid, error) == (1, 0), f"{path} answers {error}")
        (length,) = struct.unpack_from(">i", reply, 16)
        close = struct.pack(">ii", 2, -11)
        wire.send(struct.pack(">I", len(close)) + close)
        return reply[20 : 20 + length]
    finally:
        wire.close()


def server_at(quorum, path):
    """The server that a node of HBase's names, `host:port`."""
    data = znode(quorum, path)
    expect(data and data[0] == 0xFF, f"{path} does not begin with 0xFF")
    (length,) = struct.unpack_from(">I", data, 1)
    expect(1 <= length <= 65_000, f"{path} has metadata of {length} bytes")
    rest = data[5 + length :]
    expect(rest[:4] == b"PBUF", f"{path} has no magic")
    server = Message(rest[4:]).within(1)
    return f"{server.one(1).decode()}:{server.one(2)}"


# RPC.


class Connection:
    """To one server and service. Calls may be sent before earlier ones are answered."""

    def __init__(self, address, service, snappy=False):
        self.wire = Wire(address)
        self.snappy = snappy
        self.last_id = 0
        self.answers = {}
        header = message(
            (1, message((1, "root"))), (2, service), (3, KEY_VALUE_CODEC), (4, SNAPPY_CODEC if snappy else None)
        )
        self.wire.send(b"HBas\0\x50" + struct.pack(">I", len(header)) + header)

    def close(self):
        self.wire.close()

    def frame_of(self, method, request, block=b"", priority=None):
        """A request's bytes and its call's id."""
        self.last_id += 1
        if block and self.snappy:
            block = compress(block)
        meta = message((1, len(block))) if block else None
        header = message((1, self.last_id), (3, method), (4, True), (5, meta), (6, priority))
        body = varint(len(header)) + header + varint(len(request)) + request + block
        return struct.pack(">I", len(body)) + body, self.last_id

    def send(self, method, request, block=b"", priority=None):
        frame, call = self.frame_of(method, request, block, priority)
        self.wire.send(frame)
        return call

    def receive(self, call):
        """A call's reply and cells; replies to others are kept for them."""
        while call not in self.answers:
            frame = self.wire.frame()
            header, at = delimited(frame, 0)
            header = Message(header)
            expect(1 in header, "a reply without a call's id")
            expect(0 < header.one(1) <= self.last_id, f"a reply to call {header.one(1)}, which nobody made")
            self.answers[header.one(1)] = (header, frame, at)
        header, frame, at = self.answers.pop(call)
        exception = header.within(2)
        if exception:
            # Both are looked into without asking whether they are there.
            expect(1 in exception and 2 in exception, "an exception without its class or text")
            raise RemoteError(exception.one(1).decode(), exception.one(2).decode())
        reply, at = delimited(frame, at)
        meta = header.within(3)
        length = meta.one(1, 0) if meta else 0
        expect(at + length == len(frame), f"{len(frame) - at} bytes behind the reply, {length} of cells")
        block = frame[len(frame) - length :]
        return Message(reply), decompress(block) if self.snappy and block else block

    def call(self, method, request, block=b"", priority=None):
        return self.receive(self.send(method, request, block, priority))
