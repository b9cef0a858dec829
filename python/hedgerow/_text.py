"""Text that is shown to people and models."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""Return `text` as one harmless line: control, direction and undecodable characters become `\x…` or `\u…`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) for character in text)


def unescaped(text: str) -> list[str]:
    r"""Return what `escaped` may have shown as `text`: none if it shows itself; `\x85` may be a byte or a character."""
    if "\\x" not in text and "\\u" not in text:
        return []
    import re  # `import hedgerow` needs this module, and does without that one

    escape = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")
    if not escape.search(text):
        return []
    as_byte = escape.sub(lambda found: chr(_code(found[0], 0xDC00)), text)
    as_character = escape.sub(lambda found: chr(_code(found[0], 0)), text)
    return [as_byte] if as_byte == as_character else [as_byte, as_character]


def _code(escape: str, byte: int) -> int:
    code = int(escape[2:], 16)
    return code + byte if escape[1] == "x" and code >= 0x80 else code


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape stores it
        return f"\\x{code - 0xDC00:02x}"
    # Cc, Cs and the characters that reorder or hide text; other scripts and emoji stay as they are.
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF or code in _REORDERING:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character


_REORDERING = frozenset(
    {0x061C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, *range(0x202A, 0x202F), *range(0x2060, 0x2070)}
)
