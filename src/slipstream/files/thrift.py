"""Reader of Thrift's compact protocol, as used by Parquet's footers and page headers."""

from __future__ import annotations

from typing import Any

DEEPEST = 16
"""Greatest nesting of structs and lists; Parquet needs six levels."""

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
"""Type codes of the compact protocol."""


class Compact:
    """Reads values from bytes; invalid input raises a ValueError or an IndexError."""

    def __init__(self, content: bytes) -> None:
        self.content, self.offset = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the values of a struct by field id."""
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != STOP:
            field = field + (head >> 4) if head >> 4 else _signed(self._number())
            kind = head & 0x0F
            fields[field] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth + 1)
        return fields

    def _byte(self) -> int:
        self.offset += 1
        return self.content[self.offset - 1]

    def _number(self) -> int:
        """Return an unsigned LEB128 integer."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of over 64 bits")

    def _take(self, length: int) -> bytes:
        self.offset += length
        if self.offset > len(self.content):
            raise IndexError("the end")
        return self.content[self.offset - length : self.offset]

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (I16, I32, I64):
            return _signed(self._number())
        if kind == BINARY:
            return self._take(self._number())
        if kind in (LIST, SET):
            head = self._byte()
            count = self._number() if head >> 4 == 15 else head >> 4
            return [self._item(head & 0x0F, depth) for _ in range(self._possible(count))]
        if kind == STRUCT:
            return self.struct(depth)
        if kind == MAP:
            count = self._possible(self._number())
            kinds = self._byte() if count else 0
            return [(self._item(kinds >> 4, depth), self._item(kinds & 0x0F, depth)) for _ in range(count)]
        if kind in (BYTE, DOUBLE):
            return self._take(1 if kind == BYTE else 8)
        raise ValueError("an unknown type")

    def _item(self, kind: int, depth: int) -> Any:
        """Return an item of a list or map, where a boolean takes a byte."""
        return self._byte() == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth + 1)

    def _possible(self, count: int) -> int:
        """Return `count` if that many items can follow, each of at least a byte; else raise a ValueError."""
        if count > len(self.content) - self.offset:
            raise ValueError("more items than bytes")
        return count


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
