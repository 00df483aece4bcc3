"""Other OCI runtimes: from the file and the command line together, and what is no runtime."""

import json

import pytest

from engine.errors import Invalid
from engine.settings import every, runtimes


def made(tmp_path, document=None, *arguments):
    path = tmp_path / "daemon.json"
    path.write_text(json.dumps(document or {}))
    return every.from_arguments(["--config-file", str(path), *arguments], {}, 0)


def test_the_file_and_the_command_line_are_taken_together(tmp_path):
    document = {"runtimes": {"Odd": {"path": "/o", "runtimeArgs": ["--debug", "a=b"]}}, "default-runtime": "crun"}
    chosen = made(tmp_path, document, "--add-runtime", "CRUN=/usr/bin/crun")
    assert runtimes.programs(chosen.runtimes) == {"Odd": ("/o", "--debug", "a=b"), "crun": ("/usr/bin/crun",)}
    assert chosen.default_runtime == "crun"
    assert made(tmp_path).default_runtime == "runc"


@pytest.mark.parametrize(
    ("document", "arguments", "text"),
    [
        ({}, ["--add-runtime", "x"], "invalid runtime argument: x"),
        ({}, ["--add-runtime", "RunC=/x"], "runtime name 'runc' is reserved"),
        ({}, ["--add-runtime", "a=/x", "--add-runtime", "a=/y"], "runtime 'a' was already defined"),
        ({}, ["--default-runtime", "crun"], "specified default runtime 'crun' does not exist"),
        ({"runtimes": {"runc": {"path": "/x"}}}, [], "runtime name 'runc' is reserved"),
        ({"runtimes": {"a": {"path": "/x"}}}, ["--add-runtime", "a=/y"], "runtime 'a' was already defined"),
        ({"runtimes": {"a": {"runtimeType": "io.containerd.kata.v2"}}}, [], "shims of containerd (runtimeType)"),
        ({"runtimes": {"a": {"path": "/x", "runtimeArgs": "y"}}}, [], "expected a list of strings"),
        ({"runtimes": {"a": {}}}, [], "give a path"),
        ({"runtimes": ["a"]}, [], "expected an object"),
    ],
)
def test_a_runtime_that_cannot_be_is_refused(tmp_path, document, arguments, text):
    with pytest.raises(Invalid) as caught:
        made(tmp_path, document, *arguments)
    assert text in str(caught.value)
