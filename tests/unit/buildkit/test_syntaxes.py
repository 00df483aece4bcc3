"""Which frontend a file asks for."""

import pytest

from engine.daemon.buildkit import syntaxes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM x", ""),
        ("# syntax=docker/dockerfile:1\nFROM x", ""),
        ("#syntax = docker/dockerfile-upstream:master", ""),
        ("# syntax=docker.io/docker/dockerfile:1.4-labs", ""),
        ("# syntax=mirror.example/docker/dockerfile@sha256:" + "a" * 64, ""),
        ("# syntax=mirror.example/cache/docker/dockerfile:1", ""),
        ("# syntax=tonistiigi/copy-and-more:1 with words", "tonistiigi/copy-and-more:1 with words"),
        ("# syntax=mirror.example/other/dockerfile", "mirror.example/other/dockerfile"),
        ("#!/usr/bin/env docker\n# syntax=a/b", "a/b"),
        ("\ufeff# escape=`\n# Syntax=a/b\r\nFROM x", "a/b"),
        ("// syntax=a/b\n{}", "a/b"),
        ('{"syntax": "a/b", "x": 1}', "a/b"),
        ('{"syntax": 1}', ""),
        ('{"syntax": "a/b"', ""),
        ("# words\n# syntax=a/b", ""),
        ("\n# syntax=a/b", ""),
        ("FROM x\n# syntax=a/b", ""),
    ],
)
def test_what_a_file_asks_for(text: str, expected: str) -> None:
    assert syntaxes.other(text.encode()) == expected


def test_what_the_client_says_goes_before_it() -> None:
    assert syntaxes.other(b"# syntax=a/b", "docker/dockerfile:1") == ""
    assert syntaxes.other(b"# syntax=docker/dockerfile", "c/d x") == "c/d x"
