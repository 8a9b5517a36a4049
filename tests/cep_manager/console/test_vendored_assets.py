"""What the console takes from others is what tools/vendor_console.sh built, whole and with its licences."""

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
VENDOR = ROOT / "cep_manager" / "web" / "console" / "static" / "vendor"
AXE = ROOT / "tests" / "cep_manager" / "axe"
DESCRIBED = json.loads((VENDOR / "vendor.json").read_text(encoding="utf-8"))


def test_every_file_has_the_sum_that_was_written_down_when_it_was_built() -> None:
    sums = {one["file"]: one["sha256"] for one in DESCRIBED["files"]}
    found = {file.name for file in VENDOR.iterdir()} - {"vendor.json"}
    assert set(sums) == found
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in found} == sums


def test_the_versions_are_those_that_the_script_pins() -> None:
    lock = json.loads((ROOT / "tools" / "console_vendor" / "package-lock.json").read_text(encoding="utf-8"))
    locked = {name.removeprefix("node_modules/"): entry for name, entry in lock["packages"].items() if name}
    assert all(locked[one["name"]]["version"] == one["version"] for one in DESCRIBED["packages"])
    assert all(entry["integrity"].startswith("sha512-") for entry in locked.values())
    asked = json.loads((ROOT / "tools" / "console_vendor" / "package.json").read_text(encoding="utf-8"))
    versions = {**asked["dependencies"], **asked["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())


def test_every_package_comes_with_a_licence_that_allows_it() -> None:
    licences = (VENDOR / "codemirror.licences.txt").read_text(encoding="utf-8")
    assert {one["licence"] for one in DESCRIBED["packages"]} == {"MIT"}
    for one in DESCRIBED["packages"]:
        assert f"{one['name']} {one['version']} (MIT)" in licences


def test_nothing_vendored_makes_code_from_text_or_calls_elsewhere() -> None:
    bundle = (VENDOR / "codemirror.js").read_text(encoding="utf-8")
    assert re.findall(r"\beval\(|new Function\b|\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket", bundle) == []


def test_axe_is_what_its_script_fetched_with_its_licences() -> None:
    described = json.loads((AXE / "vendor.json").read_text(encoding="utf-8"))
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in AXE.iterdir()}
    assert {name: value for name, value in sums.items() if name != "vendor.json"} == described["files"]
    assert "Mozilla Public License" in (AXE / "LICENSE").read_text(encoding="utf-8")
    assert f"version={described['package']['version']}\n" in (ROOT / "tools" / "vendor_axe.sh").read_text(
        encoding="utf-8"
    )
