"""What plans may write: `weather:windChill(…)`, `weather:range(…)` and `#window.weather:changes(…)`.

The manager reads this module to check plans and to offer the names in its editor; it does not need the engine.
"""

from __future__ import annotations

from siddhi.extensions.declaring import aggregator, function, window
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, DOUBLE, NUMERIC, attribute, constant, takes, value
from siddhi.plugins.extension import Extension

WEATHER = Extension(
    "weather",
    declarations=(
        function(
            "weather",
            "windChill",
            "how cold it feels in °C; null when it is too warm or too calm to say",
            AttributeType.DOUBLE,
            takes(value("celsius", DOUBLE), value("kilometres.per.hour", DOUBLE)),
        ),
        aggregator(
            "weather",
            "range",
            "the difference between the highest and the lowest value",
            AttributeType.DOUBLE,
            takes(value("value", NUMERIC)),
        ),
        window(
            "weather",
            "changes",
            "the last n events that brought another value than the event before them",
            takes(attribute("attribute", ANY), constant("length", frozenset({AttributeType.INT}))),
        ),
    ),
    implementations=("weather_engine",),
)
