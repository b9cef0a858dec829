"""What `read_text(encoding=)` shows can be edited with the same encoding, and reads back."""

from __future__ import annotations

import codecs
import encodings.aliases

import pytest

from hedgerow import EditError, InvalidArgumentError, NotUtf8Error, Workspace


def single_byte() -> dict[str, bytes]:
    """Return the single-byte encodings of Python by all their names, each with the bytes it has."""
    found: dict[str, bytes] = {}
    names = {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "latin_1", "koi8_u", "iso8859_11"}
    for name in sorted(names | {name.replace("_", "-") for name in names}):
        try:
            has = {byte: bytes([byte]).decode(name) for byte in range(1, 256) if decodes(byte, name)}
        except LookupError:
            continue
        whole = bytes(byte for byte in has if byte not in b"\r\n")
        one_each = all(len(text) == 1 for text in has.values())
        if one_each and has.get(0x61) == "a" and (len(has) > 200 or codecs.lookup(name).name == "ascii"):
            found[name] = whole
    return found


def decodes(byte: int, name: str) -> bool:
    try:
        bytes([byte]).decode(name)
    except UnicodeError:
        return False
    return True


def test_what_a_single_byte_encoding_shows_can_be_edited_and_reads_back() -> None:
    ws = Workspace.memory()
    both_know = set()
    for name, data in single_byte().items():
        ws.write_bytes("f", data)
        shown = ws.read_text("f", encoding=name)
        try:
            ws.edit("f", shown, shown[::-1], encoding=name)
        except InvalidArgumentError as error:
            assert "unknown encoding" in error.message, name
            continue
        assert ws.read_bytes("f") == data[::-1], name
        assert ws.read_text("f", encoding=name) == shown[::-1], name
        codec = codecs.lookup(name).name
        for at in () if codec in both_know else range(len(shown)):
            ws.write_bytes("f", b"\n" + data[at : at + 1] + b"\n")
            ws.edit("f", shown[at], "x" + shown[at], encoding=name)
            assert ws.read_bytes("f") == b"\nx" + data[at : at + 1] + b"\n", (name, data[at])
        both_know.add(codec)
    assert {"ascii", "iso8859-1", "iso8859-9", "iso8859-11", "tis-620", "koi8-u", "koi8-r", "cp1252"} <= both_know
    assert len(both_know) > 25


@pytest.mark.parametrize("name", ["latin-1", "latin_1", "L1", "ISO-8859-1", "iso_8859-1:1987", "8859", "latin"])
def test_latin1_is_that_of_python_by_each_of_its_names(any_ws: Workspace, name: str) -> None:
    any_ws.write_bytes("f", bytes([0x80, 0x9F, 0xE9, 0xFF]))
    with pytest.raises(EditError):
        any_ws.edit("f", "\u20ac", "x", encoding=name)  # what browsers show
    any_ws.edit("f", "\x80\x9f\u00e9", "\u00e9\x81\x80", encoding=name)
    assert any_ws.read_bytes("f") == bytes([0xE9, 0x81, 0x80, 0xFF])
    any_ws.edit("f", "\u00e9\x81\u20ac", "\u20ac", encoding="windows-1252")
    assert any_ws.read_bytes("f") == bytes([0x80, 0xFF])


@pytest.mark.parametrize("name", ["ascii", "us-ascii", "ANSI_X3.4-1968", "646", "iso-ir-6"])
def test_ascii_refuses_what_is_none(any_ws: Workspace, name: str) -> None:
    any_ws.write_bytes("f", b"caf\xe9 = 1\n")
    with pytest.raises(NotUtf8Error, match="not valid ascii"):
        any_ws.edit("f", "= 1", "= 2", encoding=name)
    any_ws.write_bytes("f", b"cafe = 1\n")
    with pytest.raises(NotUtf8Error):
        any_ws.edit("f", "cafe", "caf\u00e9", encoding=name)
    any_ws.edit("f", "= 1", "= 2", encoding=name)
    assert any_ws.read_bytes("f") == b"cafe = 2\n"
