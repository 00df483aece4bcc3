"""Progress as docker shows it, on a terminal and elsewhere."""

import io

from engine.client import progress

DOCUMENTS = [
    {"status": "Pulling from library/busybox", "id": "latest"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "aaa"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "bbb"},
    {"status": "Downloading", "progressDetail": {"current": 500000, "total": 1000000}, "id": "aaa"},
    {"status": "Pull complete", "progressDetail": {}, "id": "aaa"},
    {"status": "Status: Downloaded newer image for busybox:latest"},
]


def shown(columns):
    out = io.StringIO()
    progress.show(DOCUMENTS, out, columns)
    return out.getvalue()


def test_without_a_terminal_only_whole_steps_are_shown():
    assert shown(None).splitlines() == [
        "latest: Pulling from library/busybox",
        "aaa: Pulling fs layer",
        "bbb: Pulling fs layer",
        "aaa: Pull complete",
        "Status: Downloaded newer image for busybox:latest",
    ]


def test_on_a_terminal_each_layer_keeps_its_line():
    text = shown(80)
    assert "\x1b[2A\x1b[2K\raaa: Downloading [===============>" in text
    assert text.endswith(
        "\x1b[2A\x1b[2K\raaa: Pull complete\r\x1b[2BStatus: Downloaded newer image for busybox:latest\n"
    )


def test_a_line_is_cut_to_the_terminal():
    assert all(len(line) <= 100 for line in shown(20).replace("\r", "\n").splitlines())
    assert "Downloading" in shown(20)


def test_the_bar_is_full_at_the_end_and_absent_without_a_total():
    detail = {"current": 10, "total": 10}
    assert progress.line({"status": "Extracting", "progressDetail": detail}).count("=") == 30
    assert progress.line({"status": "Extracting", "id": "a", "progressDetail": {"current": 10}}) == "a: Extracting 10B"


def test_a_stream_is_shown_as_it_is_wherever_it_is_cut():
    for columns in (None, 80):
        out = io.StringIO()
        progress.show([{"stream": "Loaded im"}, {"stream": "age: a:b\n"}, {"aux": {"ID": "x"}}], out, columns)
        assert out.getvalue() == "Loaded image: a:b\n"
