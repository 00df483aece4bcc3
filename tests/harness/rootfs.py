"""A busybox root filesystem as a tar, made from the host's static busybox as the real image is laid out.

Pure: reads one program, returns bytes. The archive is the same byte for byte on each call, so image ids are stable.
"""

import functools
import io
import shutil
import subprocess
import tarfile

DIRECTORIES = (
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("usr/sbin", 0o755),
    ("var", 0o755),
    ("var/spool", 0o755),
    ("var/spool/mail", 0o755),
    ("var/www", 0o755),
)
PASSWD = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
bin:x:2:2:bin:/bin:/bin/false
sys:x:3:3:sys:/dev:/bin/false
sync:x:4:100:sync:/bin:/bin/sync
mail:x:8:8:mail:/var/spool/mail:/bin/false
www-data:x:33:33:www-data:/var/www:/bin/false
operator:x:37:37:Operator:/var:/bin/false
nobody:x:65534:65534:nobody:/home:/bin/false
"""
GROUP = """\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
lp:x:7:
mail:x:8:
kmem:x:9:
wheel:x:10:root
cdrom:x:11:
dialout:x:18:
floppy:x:19:
video:x:28:
audio:x:29:operator
tape:x:32:
www-data:x:33:
operator:x:37:
utmp:x:43:
plugdev:x:46:operator
staff:x:50:
lock:x:54:
netdev:x:82:
users:x:100:
nobody:x:65534:
"""
CHANGES = ("ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 'CMD ["sh"]')
SHADOW = "root:*:10933:0:99999:7:::\n"


def program() -> str | None:
    """The host's busybox, or None. Debian's busybox-static puts a static one there."""
    return shutil.which("busybox")


@functools.cache
def busybox() -> bytes:
    """The archive: /bin/busybox, a link for each of its applets, and the files of the real image."""
    path = program()
    with open(path, "rb") as source:
        binary = source.read()
    applets = subprocess.run([path, "--list"], capture_output=True, check=True, text=True).stdout.split()
    entries: list[tuple[str, int, bytes]] = [
        ("bin/busybox", 0o755, binary),
        ("etc/passwd", 0o644, PASSWD.encode()),
        ("etc/group", 0o644, GROUP.encode()),
        ("etc/shadow", 0o600, SHADOW.encode()),
    ]
    links = [(f"bin/{name}", "busybox") for name in applets if name != "busybox"]
    return archive(entries, DIRECTORIES, links)


def archive(
    files: list[tuple[str, int, bytes]],
    directories: tuple[tuple[str, int], ...] = (),
    links: list[tuple[str, str]] | tuple = (),
) -> bytes:
    """A tar of directories (name, mode), files (name, mode, content) and symbolic links (name, target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, mode in directories:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, mode, content in files:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, target
            tar.addfile(entry)
    return buffer.getvalue()
