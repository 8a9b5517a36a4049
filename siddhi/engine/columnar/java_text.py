"""Format and parse numbers as Java does, since plans convert between numbers and text."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siddhi.engine.jit.arrays import AnyArray, BoolArray

_LEAST_PLAIN, _LEAST_SCIENTIFIC = 1e-3, 1e7
"""Java writes numbers between these bounds without an exponent."""
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEX = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL = re.compile(r"[+-]?(NaN|Infinity)")
_BLANKS = "".join(map(chr, range(0x21)))


def floating_text(value: float, *, single: bool) -> str:
    """Return `value` as `Double.toString` writes it, or `Float.toString` when `single`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    if not single and _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        return float.__repr__(value)  # the shortest digits that parse to the same number, as in Java
    number = np.float32(value) if single else np.float64(value)
    mantissa, exponent = np.format_float_scientific(number, unique=True, trim="0").split("e")
    if mantissa.endswith(".0"):  # Java writes at least two digits, and the closest such number: 4.9E-324
        mantissa, exponent = f"{number:.1e}".split("e")
    power = int(exponent)
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    if not -3 <= power < 7:
        return f"{sign}{digits}E{power}"
    plain = digits.replace(".", "").rstrip("0")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{plain}"
    whole, fraction = plain[: power + 1].ljust(power + 1, "0"), plain[power + 1 :]
    return f"{sign}{whole}.{fraction or '0'}"


def floating_texts(values: AnyArray, valid: BoolArray | None = None) -> pa.StringArray:
    """Return the texts of float32 or float64 `values` as `floating_text` writes them, null where not `valid`."""
    texts = pc.cast(pa.array(values, mask=None if valid is None else ~valid), pa.utf8())
    sizes = np.abs(values)
    plain = (sizes >= _LEAST_PLAIN) & (sizes < _LEAST_SCIENTIFIC)
    with np.errstate(invalid="ignore"):
        whole = plain & (values == np.trunc(values))
    if whole.any():  # Arrow leaves out the fraction
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    other = ~plain if valid is None else ~plain & valid
    if other.any():
        single = values.dtype == np.float32
        written = [floating_text(value, single=single) for value in values[other].tolist()]
        texts = pc.replace_with_mask(texts, pa.array(other), pa.array(written, pa.utf8()))
    return texts


def parse_integer(text: str, bits: int) -> int | None:
    """Return the number that `Integer.parseInt` (32 bits) or `Long.parseLong` (64) returns, None where Java throws."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_floating(text: str) -> float | None:
    """Return the number that `Double.parseDouble` returns, None where Java throws."""
    stripped = text.strip(_BLANKS)
    if _SPECIAL.fullmatch(stripped):
        return float(stripped.replace("Infinity", "inf").replace("NaN", "nan"))
    if _DECIMAL.fullmatch(stripped):
        return float(stripped.rstrip("fFdD"))
    if _HEX.fullmatch(stripped):
        head, power = re.split("[pP]", stripped, maxsplit=1)
        try:
            return float.fromhex(f"{head}p{power.rstrip('fFdD')}")
        except OverflowError:  # overflow gives infinity, as in Java
            return -math.inf if head.startswith("-") else math.inf
    return None
