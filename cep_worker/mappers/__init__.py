"""Mappers: events as bodies of some format, and back.

reading   sources.py      the mappers that `@map` of a source may name, and what reads for each of them
          json_events.py  JSON and NDJSON            json_paths.py  JSON of other shapes, by paths
          csv_events.py   values parted by commas    xml_events.py  elements, by name or by XPath
          text_events.py  lines, or what regular expressions find
          text_columns.py columns of texts → record batch: what all but JSON have in common
          refusals.py     what is said about events that do not fit
          attribute_paths.py  `@attributes`: where each attribute stands
writing   sinks.py        the mappers that `@map` of a sink may name
          writing.py      what such a mapper is, and templates
          json_texts.py, csv_texts.py, xml_texts.py, text_texts.py    one for each format
          value_texts.py  values as texts: what all but JSON have in common
neither   key_values.py   what goes from a sink `inMemory` to a source, by keys
"""
