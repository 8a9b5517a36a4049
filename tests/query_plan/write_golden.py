"""Write the golden files of the planner again; check the difference before committing it."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from cep_cli.main import main as main_command
from query_plan.builder import build
from query_plan.explain import explain
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPLAINED = ("RoomMonitor", "Sessions", "TradeAlerts")


def main() -> None:
    for source in (*sorted((HERE / "golden").glob("*.siddhiql")), ROOT / "samples/flights/KnockOnDelays.siddhiql"):
        plan = build(analyse(parse(source.read_text(encoding="utf-8"))))
        golden = HERE / "golden" / source.stem
        golden.with_suffix(".xml").write_text(write_xml(plan), encoding="utf-8")
        if source.stem in EXPLAINED:
            golden.with_suffix(".txt").write_text(explain(plan) + "\n", encoding="utf-8")
    write_docs(ROOT / "docs/query-plan")


def write_docs(folder: Path) -> None:
    """Write the examples of the golden room monitor into the pages: XML, explanation, hints, and refusals."""
    golden = HERE / "golden" / "RoomMonitor"
    blocks = [golden.with_suffix(ending).read_text(encoding="utf-8") for ending in (".siddhiql", ".xml", ".txt")]
    hinted = (HERE / "golden" / "TradeAlerts.txt").read_text(encoding="utf-8")
    replace_blocks(folder / "xml.md", [*blocks, hinted[hinted.index("Hints") :]])
    refused = code_blocks(folder / "validation.md")[0]
    replace_blocks(folder / "validation.md", [refused, validated(refused)])


def validated(plan: str) -> str:
    """Return what `cep validate Rooms.siddhiql` prints for the plan."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "Rooms.siddhiql"
        file.write_text(plan, encoding="utf-8")
        return CliRunner().invoke(main_command, ["validate", str(file)]).output.replace(str(file), file.name)


def code_blocks(page: Path) -> list[str]:
    """Return the texts of the page's code blocks."""
    return re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def replace_blocks(page: Path, blocks: list[str]) -> None:
    """Write `blocks` in place of the page's code blocks."""
    fresh = iter(blocks)
    text = page.read_text(encoding="utf-8")
    page.write_text(
        re.sub(r"(```\w*\n).*?```", lambda block: f"{block[1]}{next(fresh)}```", text, flags=re.DOTALL),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
