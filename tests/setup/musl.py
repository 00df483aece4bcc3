"""A host of musl and BusyBox: CPython built on musl from Debian's sources, in a root filesystem with little else.

Run by `python3 -m tests --long musl` on Debian, once: it takes some ten minutes on two processors. The host has what
Alpine Linux has with its packages python3 and py3-cffi: a shared libpython, threads with musl's small stacks, ssl,
sqlite3, ctypes, libzstd, BusyBox for every program. Nothing is installed, and apt's own settings stay as they are.
"""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NEEDED = ("musl-gcc", "tclsh", "make", "perl", "busybox", "strip", "apt-get")
NAME = f"{platform.machine()}-linux-musl"
KERNEL = ("linux", "asm-generic", "asm")
# gcc with musl's headers and library, and with the kernel's headers, which Debian's musl does not bring.
COMPILER = """#!/bin/sh
case "$*" in -print-multiarch | --print-multiarch | -dumpmachine) echo {name}; exit ;; esac
exec musl-gcc -idirafter {headers} "$@"
"""
_CONFIGURE = "./configure --host=$NAME --build=$NAME --prefix=$MADE --disable-shared"
_LEFT_OUT = (
    *("tests", "engine", "legacy", "comp", "cms", "srp", "idea", "camellia", "seed", "rc2", "rc4", "cast", "bf", "md4"),
    *("mdc2", "whirlpool", "aria", "sm2", "sm3", "sm4", "async"),
)
LIBRARIES = {
    "libffi": f"{_CONFIGURE} --disable-docs --disable-multi-os-directory && make -j2 install",
    "zlib": "./configure --prefix=$MADE --static && make -j2 libz.a"
    " && cp libz.a $MADE/lib && cp zlib.h zconf.h $MADE/include",
    "bzip2": 'make -j2 libbz2.a CC="$CC" CFLAGS="$CFLAGS -D_FILE_OFFSET_BITS=64"'
    " && cp libbz2.a $MADE/lib && cp bzlib.h $MADE/include",
    "xz-utils": f"{_CONFIGURE} {' '.join(f'--disable-{each}' for each in ('xz', 'xzdec', 'lzmadec', 'lzmainfo'))}"
    " --disable-lzma-links --disable-scripts --disable-doc --disable-nls && make -j2 install",
    # The one file sqlite3.c is written by programs of this host.
    "sqlite3": "CC=gcc ./configure --disable-tcl --disable-readline && make CC=gcc sqlite3.c"
    " && $CC $CFLAGS -c sqlite3.c && ar rcs $MADE/lib/libsqlite3.a sqlite3.o && cp sqlite3.h $MADE/include",
    "libzstd": "make -C lib -j2 libzstd && cp -L lib/libzstd.so.1 $ROOT/usr/lib",
    "openssl": f"./Configure linux-{platform.machine()} --prefix=$MADE --libdir=lib --openssldir=/etc/ssl no-shared"
    f" {' '.join(f'no-{each}' for each in _LEFT_OUT)} && make -j2 build_libs"
    " && cp libssl.a libcrypto.a $MADE/lib && cp -r include/openssl $MADE/include",
}
"""What Python is linked with, by Debian's source packages, and the commands that build it in its directory."""
# Python 3.11.3 has the functions of extended attributes with musl too; Debian 12's is older, and gets that change.
_XATTRS = (
    "s/defined(HAVE_SYS_XATTR_H) && defined(__GLIBC__)/defined(HAVE_SYS_XATTR_H)/;"
    r"s/^# *include <sys.xattr.h>/#include <linux\/limits.h>\n&/"
)
PYTHON = (
    f"sed -i '{_XATTRS}' Modules/posixmodule.c && "
    "./configure --host=$NAME --build=$NAME --prefix=/usr --enable-shared"
    " --without-static-libpython --disable-test-modules --with-openssl=$MADE --with-ensurepip=no"
    " ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no && make -j2 && make install DESTDIR=$ROOT"
)
NOT_NEEDED = ("usr/include", "usr/share", "usr/lib/pkgconfig", "usr/lib/python3*/config-*", "usr/lib/python3*/idlelib")
DIRECTORIES = (
    "bin",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "dev",
    "etc",
    "lib",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "var",
)
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/resolv.conf": "",
}


def place(cache: Path) -> Path:
    """Where the host's root filesystem is: another recipe is another one."""
    return cache / f"musl-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"


def complete(cache: Path) -> bool:
    """Whether it is built: the directory has its name only when everything is in it."""
    return place(cache).is_dir()


def python(cache: Path) -> Path:
    """The interpreter, which runs on this host too."""
    return place(cache) / "usr/bin/python3"


def unable() -> str:
    """What this host lacks to build it, in words; empty when it can."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"without {' '.join(lacking)}" if lacking else ""


def make(cache: Path, own: Path) -> None:
    """Build it. own: the Python of the tests, which has pip. CalledProcessError with the words of what failed."""
    with tempfile.TemporaryDirectory(dir=cache, prefix="musl-") as scratch:
        work = Path(scratch)
        root, made, final = work / "root", work / "made", place(cache)
        for name in DIRECTORIES:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("lib", "include"):
            (made / name).mkdir(parents=True)
        interpreter = f"python3.{_newest()}"
        fetched = fetch(work, [*LIBRARIES, interpreter])
        variables = {
            "CC": str(compiler(work)),
            "CFLAGS": "-O2 -fPIC",
            "CPPFLAGS": f"-I{made}/include",
            # Where it runs from the cache there is no /usr/lib with its library.
            "LDFLAGS": f"-L{made}/lib -Wl,-rpath,{final}/usr/lib",
            "PKG_CONFIG_LIBDIR": f"{made}/lib/pkgconfig",
            "NAME": NAME,
            "MADE": str(made),
            "ROOT": str(root),
        }
        for package, script in {**LIBRARIES, interpreter: PYTHON}.items():
            source = work / package
            source.mkdir()
            run("tar", "-xf", fetched[package], "-C", source, "--strip-components=1")
            run("nice", "sh", "-ec", script, cwd=source, env={**os.environ, **variables})
            shutil.rmtree(source)
        furnish(root)
        add_cffi(root, own)
        root.rename(final)


def _newest() -> int:
    """The minor version of Debian's own Python."""
    listed = subprocess.run(["apt-cache", "depends", "python3"], capture_output=True, text=True, check=True).stdout
    return max(int(number) for number in re.findall(r"python3\.(\d+)$", listed, re.MULTILINE))


def fetch(work: Path, packages: list[str]) -> dict[str, Path]:
    """The archives of the programs' authors that Debian's source packages have, by package; apt checks them.

    From the archive from which this host's apt installs, with lists of their own.
    """
    form = "$(REPO_URI) $(RELEASE)"
    told = subprocess.run(["apt-get", "indextargets", "--format", form], capture_output=True, text=True, check=True)
    there, release = next(line for line in told.stdout.splitlines() if "security" not in line).split()
    for name in ("apt/lists/partial", "apt/cache/archives/partial", "apt/parts", "sources"):
        (work / name).mkdir(parents=True)
    line = f"Types: deb-src\nURIs: {there}\nSuites: {release}\nComponents: main\n"
    (work / "apt/parts/main.sources").write_text(line)
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": work / "apt/parts",
        "Dir::State::Lists": work / "apt/lists",
        "Dir::Cache": work / "apt/cache",
        "APT::Sandbox::User": "root",
    }
    apt = ("apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")))
    run(*apt, "update")
    run(*apt, "source", "--download-only", *packages, cwd=work / "sources")
    found = {each: list((work / "sources").glob(f"{each}_*.orig.tar.*")) for each in packages}
    return {each: next(path for path in paths if path.suffix != ".asc") for each, paths in found.items()}


def compiler(work: Path) -> Path:
    """The C compiler for that host, as a script."""
    headers = work / "kernel"
    headers.mkdir()
    for name in KERNEL:
        near = Path("/usr/include", name)
        (headers / name).symlink_to(near if near.exists() else f"/usr/include/{platform.machine()}-linux-gnu/{name}")
    script = work / "cc"
    script.write_text(COMPILER.format(name=NAME, headers=shlex.quote(str(headers))))
    script.chmod(0o755)
    return script


def furnish(root: Path) -> None:
    """musl, BusyBox, and the few files of a host's /etc; without what only a compiler or a reader needs."""
    for path in [path for pattern in NOT_NEEDED for path in root.glob(pattern)]:
        shutil.rmtree(path)
    for path in root.glob("usr/lib/python3*/**/*.opt-*.pyc"):
        path.unlink()
    for path in (*root.glob("usr/lib/*.so.*"), *root.glob("usr/lib/python3*/lib-dynload/*.so")):
        run("strip", "--strip-unneeded", path)
    shutil.copy(f"/usr/lib/{NAME}/libc.so", root / f"lib/ld-musl-{platform.machine()}.so.1")
    busybox = root / "bin/busybox"
    shutil.copy(str(shutil.which("busybox")), busybox)
    for name in subprocess.run([busybox, "--list-full"], capture_output=True, text=True, check=True).stdout.split():
        link = root / name
        if not link.exists() and link.parent.is_dir():
            link.symlink_to("/bin/busybox")
    for name, text in FILES.items():
        (root / name).write_text(text)


def add_cffi(root: Path, own: Path) -> None:
    """cffi's library from its wheel for musl, unpacked as a package of that host has it; the wheels stay in /opt."""
    (packages,) = root.glob("usr/lib/python3*/site-packages")
    version = packages.parent.name.removeprefix("python")
    of_musl = ("--only-binary=:all:", "--platform", f"musllinux_1_2_{platform.machine()}", "--python-version", version)
    run(own, "-m", "pip", "download", "-q", "--disable-pip-version-check", *of_musl, "-d", root / "opt/wheels", "cffi")
    (wheel,) = (root / "opt/wheels").glob("cffi-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("_cffi_backend"):
                archive.extract(name, packages)


def run(*argv: str | Path, **options: object) -> None:
    """A command of a build; the end of what it says goes to stderr when it fails."""
    done = subprocess.run(
        [str(part) for part in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        done.check_returncode()
