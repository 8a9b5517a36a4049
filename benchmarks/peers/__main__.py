"""Siddhi's released jars and our engine in one run, on the same events: our rate as a multiple of Siddhi's.

    make peers ARGS="--kind 'pat_*' --kind seq_star --quick"

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.peers.events import write_events
from benchmarks.peers.kinds import QueryKind, kinds, kinds_of_file
from benchmarks.peers.measure import Effort, PeerResult, measure
from benchmarks.peers.report import line, summary, title


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    chosen = _chosen(options)
    if options.list:
        for kind in chosen:
            print(f"{kind.group:<14}{kind.name}")
        return
    logging.disable(logging.ERROR)  # rows that a table refuses, thousands of them
    quick = options.quick
    seconds = options.seconds or (0.5 if quick else 2.0)
    warm = options.warm or (1.5 if quick else 3.0)
    effort = Effort(warm, seconds, options.rounds, by_cpu=options.clock == "cpu")
    sizes = sorted(set(options.size or (4_096, 100, 1)), reverse=True)
    print(title(sizes), flush=True)
    results: list[PeerResult] = _earlier(options, chosen)
    for result in results:
        print(line(result, sizes), flush=True)
    there = {result.kind.name for result in results}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_events(folder / "events")
        for kind in (kind for kind in chosen if kind.name not in there):
            result = measure(kind, sizes, effort, folder, peer=not options.ours_only)
            results.append(result)
            print(line(result, sizes), flush=True)
            if options.json:
                document = {"kinds": [one.document() for one in results], "clock": options.clock}
                Path(options.json).write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(summary(results, sizes))


def _chosen(options: argparse.Namespace) -> list[QueryKind]:
    known = kinds() if options.cases is None else kinds_of_file(Path(options.cases))
    patterns = options.kind or ["*"]
    chosen = [kind for kind in known if any(fnmatchcase(kind.name, pattern) for pattern in patterns)]
    if not chosen:
        sys.exit(f"no kind is called {' or '.join(patterns)}; --list shows all")
    return chosen


def _earlier(options: argparse.Namespace, chosen: Sequence[QueryKind]) -> list[PeerResult]:
    """Return the results of the kinds `chosen` that are not measured, as an earlier run has."""
    if not options.resume:
        return []
    if options.json is None:
        sys.exit("--resume needs --json, the file that has the results so far")
    file = Path(options.json)
    if not file.exists():
        return []
    document = json.loads(file.read_text(encoding="utf-8"))
    if document["clock"] != options.clock:
        sys.exit(f"{file} has rates by the clock '{document['clock']}'; add --clock {document['clock']}")
    known = {kind.name: kind for kind in chosen}
    return [PeerResult.of(one, known[one["kind"]]) for one in document["kinds"] if one["kind"] in known]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", metavar="GLOB", help="only kinds with such a name; may be repeated")
    parser.add_argument("--size", action="append", type=int, metavar="N", help="our batch sizes (4096, 100 and 1)")
    parser.add_argument("--seconds", type=float, help="seconds of each measurement (2)")
    parser.add_argument(
        "--warm", type=float, metavar="SECONDS", help="warm-up in front of each measurement (3; ours at most 0.3)"
    )
    parser.add_argument("--quick", action="store_true", help="0.5 s after 1.5 s of warm-up")
    parser.add_argument("--rounds", type=int, default=1, help="measure so often in turn and keep the best (1)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: by the processor time of the sending threads, for a machine that does other work, too",
    )
    parser.add_argument("--json", metavar="FILE", help="write all results to this file, after each kind")
    parser.add_argument(
        "--resume", action="store_true", help="measure only the kinds that the file of --json does not have yet"
    )
    parser.add_argument("--ours-only", action="store_true", help="leave Siddhi out")
    parser.add_argument("--cases", metavar="FILE", help='kinds of a JSON file instead: {"name": {"app": …, "two": …}}')
    parser.add_argument("--list", action="store_true", help="show the kinds")
    return parser


if __name__ == "__main__":
    main()
