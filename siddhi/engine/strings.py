"""The strings of one running app, each with a code: operators compare, group and store codes instead of text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import BoolArray, Int64Array

NULL_CODE = -1
SMALL_BATCH = 16
"""Up to this many rows plain Python is faster than the set-up of an Arrow kernel."""


class StringPool:
    """Gives every distinct string of an app a code, dense from 0; null is `NULL_CODE`.

    One pool serves all streams and operators of an app, so that equal codes mean equal strings everywhere. Codes stay
    valid until `compact`.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._strings: list[str] = []
        self._dictionary: pa.StringArray = pa.array([], pa.utf8())

    def __len__(self) -> int:
        return len(self._strings)

    def code(self, text: str | None) -> int:
        """The code of `text`, new if it was never seen."""
        if text is None:
            return NULL_CODE
        code = self._codes.get(text)
        if code is None:
            code = len(self._strings)
            self._codes[text] = code
            self._strings.append(text)
        return code

    def text(self, code: int) -> str | None:
        return None if code < 0 else self._strings[code]

    def codes(self, texts: Iterable[str | None]) -> Int64Array:
        return np.array([self.code(text) for text in texts], dtype=np.int64)

    def texts(self, codes: Int64Array) -> list[str | None]:
        strings = self._strings
        return [strings[code] if code >= 0 else None for code in codes.tolist()]

    def encode(self, array: pa.Array) -> Int64Array:
        """The codes of a utf8 array, nulls as `NULL_CODE`."""
        if len(array) <= SMALL_BATCH:
            return self.codes(array.to_pylist())
        encoded = array.dictionary_encode()
        codes = self.codes(encoded.dictionary.to_pylist())
        if encoded.null_count == 0:
            positions: Int64Array = encoded.indices.to_numpy(zero_copy_only=False)
            return codes[positions]
        positions = encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
        return np.append(codes, np.int64(NULL_CODE))[positions]

    def decode(self, codes: Int64Array) -> pa.StringArray:
        """The utf8 array of `codes`."""
        if len(codes) <= SMALL_BATCH:
            return pa.array(self.texts(codes), pa.utf8())
        if len(self._dictionary) < len(self._strings):
            new = pa.array(self._strings[len(self._dictionary) :], pa.utf8())
            self._dictionary = pa.concat_arrays([self._dictionary, new])
        nulls: BoolArray = codes < 0
        indices = pa.array(codes, mask=nulls) if nulls.any() else pa.array(codes)
        return self._dictionary.take(indices)

    def compact(self, live: Int64Array) -> Int64Array:
        """Forgets every string whose code is not in `live`; returns the new code of each old one (`NULL_CODE`: gone).

        The table has one entry more than there were codes, so that `remap[NULL_CODE]` is `NULL_CODE`.
        """
        kept = np.unique(live[live >= 0])
        remap = np.full(len(self._strings) + 1, NULL_CODE, dtype=np.int64)
        remap[kept] = np.arange(len(kept))
        self._strings = [self._strings[code] for code in kept.tolist()]
        self._codes = {text: code for code, text in enumerate(self._strings)}
        self._dictionary = pa.array(self._strings, pa.utf8())
        return remap

    def snapshot(self) -> list[str]:
        return list(self._strings)

    def restore(self, strings: list[str]) -> None:
        self._strings = list(strings)
        self._codes = {text: code for code, text in enumerate(self._strings)}
        self._dictionary = pa.array(self._strings, pa.utf8())
