"""Cuts January 2013 out of the year's flights: `make_slice.py SOURCE_DIRECTORY [TARGET_DIRECTORY]`.

Reads `departures.parquet` and `arrivals.parquet` of the source directory and writes, under the same names, every event
whose time is before 2013-02-01T00:00Z, in the order of the source. Columns, types and nulls stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FEBRUARY_MS = 1_359_676_800_000  # 2013-02-01T00:00Z


def slice_file(source: Path, target: Path) -> int:
    """`target` holds January's events of `source`; returns how many they are."""
    table = pq.read_table(source)
    plain = pa.schema([(field.name, _plain(field.type)) for field in table.schema])
    january = table.filter(pc.less(table["ts"], FEBRUARY_MS)).cast(plain)
    pq.write_table(january, target, compression="zstd", compression_level=19)
    return january.num_rows


def _plain(of: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(of) else of


def main() -> None:
    """Write the sample files from the full data set."""
    source = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    for name in ("departures.parquet", "arrivals.parquet"):
        count = slice_file(source / name, target / name)
        sys.stdout.write(f"{name}: {count} events\n")


if __name__ == "__main__":
    main()
