"""`unitconversion:` functions, named after the two units: `unitconversion:kmTomi`."""

from __future__ import annotations

from siddhi.extensions.declaring import function
from siddhi.language.ast import AttributeType
from siddhi.parameters import NUMERIC, takes, value
from siddhi.plugins.extension import Extension

_METRES = {
    "Mm": 1e6,
    "km": 1000.0,
    "m": 1.0,
    "cm": 0.01,
    "mm": 0.001,
    "um": 1e-6,
    "nm": 1e-9,
    "mi": 1609.344,
    "yd": 0.9144,
    "ft": 0.3048,
    "in": 0.0254,
}
_KILOGRAMS = {
    "t": 1000.0,
    "kg": 1.0,
    "g": 0.001,
    "mg": 1e-6,
    "ug": 1e-9,
    "LT": 1 / 0.000984207,
    "ST": 1 / 0.00110231,
    "st": 1 / 0.157473,
    "lb": 0.4535924,
    "oz": 0.02834952,
}
"""The English units, with the few digits that Siddhi uses."""
_SECONDS = {
    "y": 365.2425 * 86400.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
    "us": 1e-6,
    "ns": 1e-9,
}
_LITRES = {"m3": 1000.0, "l": 1.0, "ml": 0.001}

_CONVERSIONS = (
    (
        _METRES,
        {
            "cm": "ft in km m mi mm nm um yd",
            "km": "cm ft in m mi mm nm um yd",
            "m": "cm ft mm yd",
            "mi": "km",
            "Mm": "km",
        },
    ),
    (_KILOGRAMS, {"g": "kg mg ug", "kg": "LT ST g lb oz st t", "t": "g kg"}),
    (_SECONDS, {"d": "h", "h": "m s", "m": "s", "s": "ms ns us", "y": "d"}),
    (_LITRES, {"l": "m3 ml", "m3": "l", "ml": "l"}),
)

SIZES: dict[str, tuple[float, float]] = {
    f"{source}To{target}": (sizes[source], sizes[target])
    for sizes, conversions in _CONVERSIONS
    for source, targets in conversions.items()
    for target in targets.split()
}
"""The sizes of both units of each function."""

UNITCONVERSION = Extension(
    "unitconversion",
    tuple(
        function(
            "unitconversion",
            name,
            f"{' in '.join(name.split('To'))}; a null fails",
            AttributeType.DOUBLE,
            takes(value("p1", NUMERIC)),
        )
        for name in SIZES
    ),
    ("siddhi.extensions.unitconversion.functions",),
)
