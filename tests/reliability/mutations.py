"""Mutations of valid content: bytes, tokens of text, members of archives, headers. All drawn from one generator."""

import gzip
import io
import json
import random
import re
import struct
import zipfile

NUMBERS = [
    "0", "-1", "1", "2", "1e400", "-1e400", "1" + 30 * "0", "1" + 400 * "0", "NaN", "nan", "inf", "-inf", "Infinity",
    "0.1.2", "1e-400", "9223372036854775808", "18446744073709551616", "-0", "0x10", "1_000", "٣", "true", "null", '""',
]  # fmt: skip
TEXTS = [
    "", " ", "\0", "\ufeff", "'", '"', "\\", "<script>", "../../x", "a" * 300, "[" * 200, "{" * 50, "é", "\ud7ff", "𝔘",
    "labels", "logits", "probs", "ids", "weights", "split", "focalcal", "contents", "null", "!!int x", "*a",
    "&a", "None", "{}", "[]", "[[]]", "-", "--", "=", ":", "\n", "\r\n", "\t", ",", ";", "%", "$HOME", "\x7f", "NaN",
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_]+")


def mutate(source: random.Random, content: bytes, ending: str, others: list[bytes]) -> bytes:
    """Damage content once, sometimes twice or three times; packed content also before it is packed."""
    if ending == ".gz" and source.random() < 0.6:
        return gzip.compress(mutate(source, gzip.decompress(content), ".csv", [content]), 1, mtime=0)
    for _ in range(source.choice((1, 1, 1, 1, 2, 3))):
        content = _choose(source, ending)(source, content, others)
    return content


def _choose(source, ending):
    plain = [_flip, _flip, _set, _delete, _insert, _repeat, _truncate, _splice, _zero, _swap]
    text = [_number, _number, _word, _word, _line, _line]
    by_ending = {
        ".csv": text, ".json": text, ".jsonl": text, ".yaml": text, ".txt": text,
        ".npz": [_member, _member, _member_text, _member_name], ".npy": [_number, _word],
        ".safetensors": [_header, _header, _number, _word], ".parquet": [_footer, _footer, _word, _number],
        ".zip": [_member, _member, _member_name],
    }  # fmt: skip
    return source.choice([*plain, *by_ending.get(ending, [])])


def _place(source, content):
    return source.randrange(len(content)) if content else 0


def _flip(source, content, _):
    if not content:
        return b"\0"
    changed = bytearray(content)
    changed[_place(source, content)] ^= 1 << source.randrange(8)
    return bytes(changed)


def _set(source, content, _):
    place = _place(source, content)
    return (
        content[:place] + bytes([source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))]) + content[place + 1 :]
    )


def _delete(source, content, _):
    place = _place(source, content)
    return content[:place] + content[place + source.choice((1, 2, 4, 8, source.randrange(1, 200))) :]


def _insert(source, content, _):
    place = _place(source, content)
    return content[:place] + source.randbytes(source.choice((1, 2, 4, 8, 64))) + content[place:]


def _repeat(source, content, _):
    place = _place(source, content)
    piece = content[place : place + source.choice((1, 4, 16, 64))]
    return content[:place] + piece * source.choice((2, 3, 50)) + content[place:]


def _truncate(source, content, _):
    return content[: _place(source, content)]


def _splice(source, content, others):
    other = source.choice(others)
    start, place = _place(source, other), _place(source, content)
    piece = other[start : start + source.choice((4, 16, 64, 256))]
    return content[:place] + piece + content[place + source.choice((0, len(piece))) :]


def _zero(source, content, _):
    place, length = _place(source, content), source.choice((2, 4, 8, 32))
    return content[:place] + bytes(min(length, len(content) - place)) + content[place + length :]


def _swap(source, content, _):
    a, b = sorted((_place(source, content), _place(source, content)))
    length = min(source.choice((1, 2, 4, 8, 16)), b - a)
    return (
        content[:a]
        + content[b : b + length]
        + content[a + length : b]
        + content[a : a + length]
        + content[b + length :]
    )


def _number(source, content, _):
    return _replace(source, content, _NUMBER, source.choice(NUMBERS).encode())


def _word(source, content, _):
    return _replace(source, content, _WORD, source.choice(TEXTS).encode(errors="surrogatepass"))


def _replace(source, content, pattern, new):
    found = [match.span() for match in pattern.finditer(content)]
    if not found:
        return content + new
    start, end = source.choice(found)
    return content[:start] + new + content[end:]


def _line(source, content, _):
    lines = content.split(b"\n")
    place = source.randrange(len(lines))
    what = source.randrange(4)
    if what == 0:
        del lines[place]
    elif what == 1:
        lines.insert(place, source.choice(lines))
    elif what == 2:
        lines[place] += source.choice(TEXTS).encode(errors="surrogatepass")
    else:
        cells = lines[place].split(b",")
        source.shuffle(cells)
        lines[place] = b",".join(cells)
    return b"\n".join(lines)


def _rezip(source, content, change):
    """Pack an archive again after a change, with right checksums, as an attacker would."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            comment = archive.comment
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:
        return content
    if not members:
        return content
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", source.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        archive.comment = comment
        for name, data in change(members):
            archive.writestr(zipfile.ZipInfo(name), data)
    return packed.getvalue()


def _member(source, content, others):
    def change(members):
        place = source.randrange(len(members))
        name, data = members[place]
        plain = source.choice((_flip, _set, _delete, _insert, _truncate, _number, _word, _zero))
        return [*members[:place], (name, plain(source, data, others)), *members[place + 1 :]]

    return _rezip(source, content, change)


def _member_text(source, content, others):
    """Change the header of an array, which numpy reads as Python."""

    def change(members):
        place = source.randrange(len(members))
        name, data = members[place]
        head = source.choice((_number, _word, _flip, _delete))(source, data[10:118], others)
        length = struct.pack("<H", len(head) % 2**16) if source.random() < 0.8 else data[8:10]
        return [*members[:place], (name, data[:8] + length + head + data[118:]), *members[place + 1 :]]

    return _rezip(source, content, change)


def _member_name(source, content, _):
    def change(members):
        place = source.randrange(len(members))
        name, data = members[place]
        new = source.choice((name.replace(".npy", ""), name[1:], f"../{name}", name.upper(), "logits.npy", "ids.npy"))
        return [*members[:place], *source.choice(([], [(new, data)])), *members[place + 1 :]]

    return _rezip(source, content, change)


def _header(source, content, others):
    """Change the JSON header of a safetensors file and write its right length."""
    try:
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        change_json(source, header)
        text = json.dumps(header).encode(errors="surrogatepass")
    except Exception:
        return _flip(source, content, others)
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def change_json(source, content):
    """Change one place of JSON: another value, another key, or nothing there any more."""
    inner = content
    while isinstance(inner, dict | list) and inner:
        key = source.choice(list(inner)) if isinstance(inner, dict) else source.randrange(len(inner))
        below = inner[key]
        if isinstance(below, dict | list) and below and source.random() < 0.7:
            inner = below
            continue
        what = source.randrange(4)
        if what == 0:
            del inner[key]
        elif what == 1 and isinstance(inner, dict):
            inner[source.choice(TEXTS)] = inner.pop(key)
        else:
            inner[key] = source.choice(
                [
                    None,
                    True,
                    -1,
                    0,
                    2**63,
                    2**70,
                    10**400,
                    1e308,
                    float("nan"),
                    float("inf"),
                    [],
                    {},
                    [[]],
                    "x",
                    *TEXTS[:12],
                ]
            )
        return


def _footer(source, content, others):
    """Damage the footer of a parquet file, which has no checksum."""
    if len(content) < 12:
        return _flip(source, content, others)
    (length,) = struct.unpack("<I", content[-8:-4])
    start = max(0, len(content) - 8 - min(length, len(content) - 8))
    head, footer, tail = content[:start], content[start:-8], content[-8:]
    changed = source.choice((_flip, _set, _word, _number, _zero, _swap))(source, footer, others)
    return head + changed + struct.pack("<I", len(changed)) + tail[4:]
