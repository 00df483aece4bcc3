"""Writes a Debian package (deb(5), deb-control(5)) around the engine in one file: the same files give the same bytes.

Pure: contents in, the package's bytes out. The package has no program of the machine, so it is for all of them.
"""

import hashlib
import io
import lzma
import tarfile

from engine.dataclass import dataclass

OLDEST = 315532800
"""1980-01-01: the time of all files, where SOURCE_DATE_EPOCH names none."""
_CONTROL = """Package: engine
Version: {version}
Architecture: all
Maintainer: The maintainers of engine <maintainers@localhost>
Installed-Size: {size}
Depends: python3 (>= 3.11)
Recommends: python3-cffi-backend, ca-certificates
Suggests: docker-cli
Section: admin
Priority: optional
Description: container engine that speaks the Docker Engine API
 A daemon and a client in one file, in Python's standard library. The docker
 CLI, compose and the docker SDKs work with it unchanged. It needs less memory
 and processor time than dockerd. Containers outlive the daemon and an upgrade
 of this package.
 .
 With python3-cffi-backend, compiled code moves the containers' output.
"""
_AFTER_INSTALLING = """#!/bin/sh
set -e
if [ "$1" = configure ] && command -v deb-systemd-helper >/dev/null; then
    for unit in engine.socket engine.service; do
        deb-systemd-helper unmask "$unit" >/dev/null
        if deb-systemd-helper --quiet was-enabled "$unit"; then
            deb-systemd-helper enable "$unit" >/dev/null
        else
            deb-systemd-helper update-state "$unit" >/dev/null
        fi
    done
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload
        if [ -n "$2" ]; then
            # The containers run on, and the new daemon takes them over.
            deb-systemd-invoke try-restart engine.service
        else
            deb-systemd-invoke start engine.socket engine.service
        fi
    fi
fi
"""
_BEFORE_REMOVING = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop engine.service engine.socket
fi
"""
_AFTER_REMOVING = """#!/bin/sh
set -e
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge engine.socket engine.service >/dev/null
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload
fi
"""
_SCRIPTS = {"postinst": _AFTER_INSTALLING, "prerm": _BEFORE_REMOVING, "postrm": _AFTER_REMOVING}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the package: its contents and its mode; or a link to `link`."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


def package(version: str, entries: dict[str, Entry], time: int) -> bytes:
    """The package of these files, by their paths below the root. time: of all files, in seconds."""
    size = sum(len(each.data) + 1023 for each in entries.values()) // 1024
    sums = "".join(f"{hashlib.md5(each.data).hexdigest()}  {path}\n" for path, each in _files(entries))
    control = {name: Entry(text.encode(), 0o755) for name, text in _SCRIPTS.items()}
    control["control"] = Entry(_CONTROL.format(version=version, size=size).encode())
    control["md5sums"] = Entry(sums.encode())
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _archive(control, time),
        "data.tar.xz": _archive(entries, time),
    }
    return b"!<arch>\n" + b"".join(_member(name, data, time) for name, data in members.items())


def _files(entries: dict[str, Entry]) -> list[tuple[str, Entry]]:
    return [(path, each) for path, each in sorted(entries.items()) if not each.link]


def _archive(entries: dict[str, Entry], time: int) -> bytes:
    """A tar archive, packed, with each directory before what is in it."""
    made = io.BytesIO()
    directories = {"/".join(path.split("/")[:number]) for path in entries for number in range(1, path.count("/") + 1)}
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in ["", *sorted({*directories, *entries})]:
            about = tarfile.TarInfo(f"./{path}")
            about.mtime, about.uname, about.gname = time, "root", "root"
            entry = entries.get(path)
            if entry is None:
                about.type, about.mode = tarfile.DIRTYPE, 0o755
            elif entry.link:
                about.type, about.mode, about.linkname = tarfile.SYMTYPE, 0o777, entry.link
            else:
                about.size, about.mode = len(entry.data), entry.mode
            archive.addfile(about, io.BytesIO(entry.data if entry else b""))
    return lzma.compress(made.getvalue(), preset=9)


def _member(name: str, data: bytes, time: int) -> bytes:
    """A member of the outer archive (deb(5), ar(5)), which begins at an even place."""
    head = f"{name:<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)
