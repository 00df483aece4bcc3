"""The flags of `docker buildx build`: their table in engine/README.md is that of the real buildx, each has its test."""

import ast
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.__main__ import CACHE, PROJECT
from tests.clients.building import LONG, Building, told
from tests.clients.conftest import Client
from tests.harness.listening import until
from tests.harness.registry import Registry
from tests.setup import compose as built

ROW = re.compile(r"^\| ((?:`--[a-z-]+` ?)+) \| ([^|]+) \|$", re.MULTILINE)
FLAG = re.compile(r"^ +(?:-\w, )?--([a-z-]+)", re.MULTILINE)
OF_ALL_COMMANDS = {"help", "builder", "debug"}
# Flag → where a build with it is looked at: a file's name after `test_buildx`, and a test.
PROVEN = {
    "add-host": ("", "options_reach_the_steps"),
    "allow": ("_frontend", "a_build_gets_the_hosts_network_if_it_asks"),
    "annotation": ("_output", "annotations"),
    "attest": ("_attest", "a_bill_of_materials_goes_with_an_image"),
    "build-arg": ("", "options_reach_the_steps"),
    "build-context": ("_frontend", "a_directory_is_a_context_by_name"),
    "cache-from": ("_cache", "in_a_registry"),
    "cache-to": ("_cache", "in_a_registry"),
    "call": ("_check", "an_outline"),
    "cgroup-parent": ("_flags", "steps_lie_in_the_cgroup_that_is_named"),
    "check": ("_check", "a_check_shows_each_warning_with_its_lines"),
    "file": ("", "options_reach_the_steps"),
    "iidfile": ("_output", "files_that_tell_of_the_result"),
    "label": ("", "options_reach_the_steps"),
    "load": ("_output", "load"),
    "metadata-file": ("_output", "files_that_tell_of_the_result"),
    "network": ("", "options_reach_the_steps"),
    "no-cache": ("_graph", "no_cache_makes_all_anew"),
    "no-cache-filter": ("_frontend", "stages_can_be_built_anew"),
    "output": ("_output", "two_outputs_at_once"),
    "platform": ("_graph", "several_platforms_are_built_at_once_into_one_image"),
    "progress": ("_flags", "progress_as_it_came"),
    "provenance": ("_attest", "provenance"),
    "pull": ("_flags", "a_base_image_is_looked_for_again"),
    "push": ("_output", "pushed"),
    "quiet": ("_flags", "a_quiet_build_prints_the_id_alone"),
    "sbom": ("_attest", "an_image_with_a_bill_is_pushed_and_runs"),
    "secret": ("", "a_secret_is_there_for_its_step_alone"),
    "shm-size": ("", "options_reach_the_steps"),
    "ssh": ("", "an_agent_is_forwarded"),
    "tag": ("", "tags_and_files_that_tell_of_the_result"),
    "target": ("", "options_reach_the_steps"),
    "ulimit": ("", "options_reach_the_steps"),
}
SHORT = {"file": "-f", "output": "-o", "quiet": "-q", "tag": "-t"}


def table() -> dict[str, str]:
    """Flag → what becomes of it."""
    paper = (PROJECT / "engine" / "README.md").read_text()
    section = paper.partition("\n## The flags of docker buildx build\n")[2].partition("\n## ")[0]
    rows = ROW.findall(section)
    return {flag: becomes for flags, becomes in rows for flag in re.findall(r"--([a-z-]+)", flags)}


def test_every_flag_has_its_row() -> None:
    if not built.complete(CACHE):
        pytest.skip("needs buildx, which the set-up builds where it has Go")
    said = subprocess.run([built.buildx(CACHE), "build", "--help"], capture_output=True, text=True, check=True).stdout
    flags = set(FLAG.findall(said)) - OF_ALL_COMMANDS
    assert "build-arg" in flags and "tag" in flags
    assert table().keys() == flags


def test_no_row_is_empty() -> None:
    assert all(len(becomes) > 10 for becomes in table().values())


def test_every_flag_has_its_test() -> None:
    """The test that is named here gives the flag to buildx."""
    assert table().keys() == PROVEN.keys()
    without = []
    for flag, (file, test) in PROVEN.items():
        text = Path(__file__).with_name(f"test_buildx{file}.py").read_text()
        functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        given = ast.get_source_segment(text, functions[f"test_{test}"]) or ""
        if not re.search(rf"""["'](--{flag}|{SHORT.get(flag, f"--{flag}")})["'=]""", given):
            without.append(flag)
    assert without == []


def test_a_base_image_is_looked_for_again(
    buildx: Building, registry: Registry, docker: Client, tag: str, tmp_path: Path
) -> None:
    name = f"{registry.address}/{tag}"
    for word in ("old", "new"):
        (buildx.place / "Base").write_text(f"FROM busybox\nENV of={word}\n")
        told(buildx("build", "-f", "Base", "-o", f"type=image,name={name},push=true,store=false", "."))
        if word == "old":
            docker("pull", name)
    (buildx.place / "Dockerfile").write_text(f"FROM {name}\nRUN echo it is the $of one\n")
    assert re.search(r"\d it is the old one\n", told(buildx("build", "--no-cache", ".")))
    assert re.search(r"\d it is the new one\n", told(buildx("build", "--no-cache", "--pull", ".")))
    docker("rmi", "-f", name)


def test_steps_lie_in_the_cgroup_that_is_named(buildx: Building) -> None:
    """It is there as long as a step is in it."""
    parent = f"of-{buildx.place.parent.name}/inner"
    buildx.write("RUN echo begun; sleep 1000")

    def made() -> list[Path]:
        return [found for each in ("", "*/") for found in Path("/sys/fs/cgroup").glob(f"{each}{parent}")]

    with buildx.begun("build", "--cgroup-parent", parent, ".") as client:
        for line in client.stdout:
            if line.rstrip().endswith(" begun"):
                break
        assert made() and all([each for each in parent.iterdir() if each.is_dir()] for parent in made())
        client.send_signal(signal.SIGINT)
        assert client.wait(LONG) != 0
    until(lambda: not made())


def test_progress_as_it_came(buildx: Building) -> None:
    buildx.write("RUN echo words")
    rows = [json.loads(line) for line in told(buildx("build", "--progress", "rawjson", ".")).splitlines() if line]
    names = {vertex["name"] for row in rows for vertex in row.get("vertexes", ())}
    assert "[2/2] RUN echo words" in names
    assert [log["data"] for row in rows for log in row.get("logs", ())] == ["d29yZHMK"]  # "words\n" in base64


def test_a_quiet_build_prints_the_id_alone(buildx: Building, docker: Client) -> None:
    buildx.write("RUN true")
    done = buildx("build", "--quiet", ".")
    assert done.stderr == ""
    assert re.fullmatch(r"sha256:[0-9a-f]{64}\n", done.stdout)
    assert docker("inspect", done.stdout.strip()).returncode == 0
