"""Keys that look the same and are not: other bytes, so another lane, another state, another count.

Four kinds: capitals (`ACME`, `Acme`); spaces around a key or more than one inside; two spellings of one character in
Unicode (`é` as one code point or as two: NFC and NFD); and the five bytes that a schema registry puts before a key,
with another schema's number in them. Compatibility forms (NFKC: full width, circled and raised digits) are not among
them: many of those do not look alike. Neither are leading zeros.

A key's form is itself in lower case, with single spaces inside, in NFC, and without a registry's header; keys of one
form are a group. It is asked of each key once, on its bytes: 5 M keys take about a second, and text that is not ASCII
several. When not to use it: keys whose case carries meaning (base64, hashes) are found too; that they are no mistake is
the reader's to know.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import as_binary, lengths_and_data
from keylane.keys.encode import REGISTRY_HEADER
from keylane.keys.read import read_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.profile.model import Profile

Kind: TypeAlias = Literal["case", "spaces", "unicode", "registry-id", "several"]
_SPACE: Final = 32
_BYTES: Final = np.arange(256, dtype=np.uint8)
#: Each byte in lower case; and whether it takes more than that to know a key's form: space other than ` `, not ASCII.
_LOWER: Final = np.where((_BYTES >= 65) & (_BYTES <= 90), _BYTES | 32, _BYTES)
_STRANGE: Final = (_BYTES >= 128) | ((_BYTES >= 9) & (_BYTES <= 13)) | ((_BYTES >= 28) & (_BYTES <= 31))
#: Hashes are marked by this many of their bits: few enough for the cache, and enough to leave few by chance.
_MARKED: Final = 24


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that look the same, by their ranks (heaviest first), and in what their bytes differ."""

    kind: Kind
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lookalikes:
    """How many groups there are, how many records the odd keys in them have, and the heaviest groups.

    The heaviest key of a group is taken for the right one, and the others for the odd ones.
    """

    groups: int = 0
    records: int = 0
    examples: tuple[Group, ...] = ()


def lookalikes(profile: Profile, most: int = 10) -> Lookalikes:
    """The groups of keys that look the same; at most this many of them as examples."""
    base = as_binary(read_batch(profile.keys, profile.key).base)
    headed = profile.key.encodings == ("raw",) and profile.key.registry_header == "keep"
    if all(e not in ("utf8", "raw") for e in profile.key.encodings) or not len(base):
        return Lookalikes()
    forms = _Forms.of(base, headed=headed)
    rows = forms.candidates()
    if not len(rows):
        return Lookalikes()
    codes = pa.array(forms.of_rows(rows), pa.binary()).dictionary_encode().indices.to_numpy()
    alike = np.bincount(codes)[codes] > 1
    return _found(profile, base, rows[alike], codes[alike], most)


def _found(profile: Profile, base: pa.Array, rows: NDArray[np.intp], codes: NDArray[np.int32], most: int) -> Lookalikes:
    if not len(rows):
        return Lookalikes()
    records = profile.records[rows]
    weights = np.bincount(codes, weights=records)
    chosen = np.argsort(-weights, kind="stable")[:most]
    groups = [rows[codes == code] for code in chosen if weights[code] > 0]
    examples = [Group(kind_of(base.take(pa.array(one)).to_pylist()), tuple(map(int, one))) for one in groups]
    heaviest = np.zeros(len(weights), np.int64)
    np.maximum.at(heaviest, codes, records)
    return Lookalikes(len(np.unique(codes)), int(records.sum() - heaviest.sum()), tuple(examples))


@dataclass(frozen=True, slots=True)
class _Forms:
    """The forms of all keys: most by their bytes in lower case, the odd ones apart, by Python."""

    lowered: pa.Array
    odd: dict[int, bytes]
    changed: bool

    @classmethod
    def of(cls, base: pa.Array, *, headed: bool) -> _Forms:
        lengths, data = lengths_and_data(base)
        odd = np.flatnonzero(_odd(lengths, data, headed=headed))
        texts = base.take(pa.array(odd)).to_pylist()
        forms = dict(zip(odd.tolist(), (form_of(text, headed=headed) for text in texts), strict=True))
        used = np.zeros(256, bool)
        used[data] = True
        # Where no letter comes both ways, keys would stay as distinct as they are.
        both = len(np.unique(_LOWER[used])) < int(used.sum())
        changed = both or bool(forms)
        return cls(_of_bytes(_LOWER[data], lengths) if changed else base, forms, changed)

    def candidates(self) -> NDArray[np.intp]:
        """Rows whose form has the hash of another's: all that look alike, and a few by chance."""
        if not self.changed:
            return np.zeros(0, np.intp)
        hashes = hash_batch(HASHES["murmur2"], self.lowered).astype(np.uint32)
        if self.odd:
            rows = np.fromiter(self.odd, np.intp, len(self.odd))
            hashes[rows] = hash_batch(HASHES["murmur2"], pa.array(self.odd.values(), pa.binary())).astype(np.uint32)
        ordered = np.sort(hashes)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        marked = np.zeros(1 << _MARKED, bool)
        marked[twice & ((1 << _MARKED) - 1)] = True
        return np.flatnonzero(marked[hashes & ((1 << _MARKED) - 1)])

    def of_rows(self, rows: NDArray[np.intp]) -> list[bytes]:
        """The forms of these rows."""
        plain = self.lowered.take(pa.array(rows)).to_pylist()
        return [self.odd.get(int(row), one) for row, one in zip(rows, plain, strict=True)]


def _odd(lengths: NDArray[np.int64], data: NDArray[np.uint8], *, headed: bool) -> NDArray[np.bool_]:
    """Which keys are more than ASCII with single spaces inside. No key of a profile is empty."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    strange = _STRANGE[data]
    if headed:
        strange[starts[:-1]] |= data[starts[:-1]] == 0
    space = data == _SPACE
    if space.any():
        strange[1:] |= space[1:] & space[:-1]
        strange[starts[:-1]] |= space[starts[:-1]]
        strange[starts[1:] - 1] |= space[starts[1:] - 1]
    out = np.zeros(len(lengths), bool)
    out[np.searchsorted(starts, np.flatnonzero(strange), side="right") - 1] = True
    return out


def form_of(key: bytes, *, headed: bool = False) -> bytes:
    r"""The form of one key; bytes that are no text are in lower case as far as they are ASCII.

    >>> form_of(b" Acme  Ltd "), form_of(b"\x00\x00\x00\x00\x07Acme", headed=True)
    (b'acme ltd', b'\x00acme')
    """
    if headed and len(key) > REGISTRY_HEADER and key[0] == 0:
        return b"\x00" + form_of(key[REGISTRY_HEADER:])
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key.lower()
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split()).encode()


def kind_of(keys: Sequence[bytes]) -> Kind:
    r"""In what keys of one form differ: in one thing, or in several.

    >>> kind_of([b"ACME", b"Acme"]), kind_of([b"a b", b"a  b"]), kind_of([b"A b", b"a  b"])
    ('case', 'spaces', 'several')
    """
    if len({key[REGISTRY_HEADER:] for key in keys if key[:1] == b"\x00"}) == 1 and all(k[:1] == b"\x00" for k in keys):
        return "registry-id"
    texts = [key.decode("utf-8", "surrogateescape") for key in keys]
    if len({text.casefold() for text in texts}) == 1:
        return "case"
    if len({" ".join(text.split()) for text in texts}) == 1:
        return "spaces"
    return "unicode" if len({unicodedata.normalize("NFC", text) for text in texts}) == 1 else "several"


def _of_bytes(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
