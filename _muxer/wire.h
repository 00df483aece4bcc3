/* Made by `python3 -m engine.wire.header` from what engine/wire declares; a test compares the two. */
#ifndef MUXER_WIRE_H
#define MUXER_WIRE_H

#include <inttypes.h>

/* The first byte of what the spawner is asked for. */
#define WIRE_ORDINARY 'O'
#define WIRE_EXEC 'E'
#define WIRE_BIRTH 'B'
#define WIRE_BIRTH_ANEW 'b'
#define WIRE_EXEC_BIRTH 'X'
#define WIRE_EXEC_BIRTH_ANEW 'x'
#define WIRE_RESOLVER 'R'
#define WIRE_PROXY 'P'
#define WIRE_TRANSPARENT_PROXY 'T'

/* The first byte of what a daemon says to a monitor beside messages. */
#define WIRE_WAITS 'W'
#define WIRE_ANSWERED 'A'
#define WIRE_SETTLED 'S'
#define WIRE_REMOVED 'R'
#define WIRE_HOME 'H'

/* The first byte of what a daemon and the proxy say to each other. */
#define WIRE_LEADS_LEADS 'L'
#define WIRE_LEADS_DROPS 'D'
#define WIRE_LEADS_TELLS 'T'
#define WIRE_LEADS_ANSWERS 'A'
#define WIRE_LEADS_GREETS 'G'

/* The first byte of what a container's init and its monitor say to each other. */
#define WIRE_READY 'N'
#define WIRE_PROCEEDS 'P'

/* The first byte of what a joiner, and the process that it makes, say to the keeper. */
#define WIRE_BORN 'B'
#define WIRE_EXECUTED 'X'
#define WIRE_TERMINAL 'T'
#define WIRE_FAILED 'F'
#define WIRE_WARNED 'W'

/* In bytes. */
#define WIRE_WAIT_HEAD_SIZE 14
#define WIRE_EXIT_DIGITS_SIZE 3
#define WIRE_REPORT_SIZE 8192
#define WIRE_LEADS_HEAD_SIZE 80
#define WIRE_LEADS_RECORD_SIZE 20

/* Of the words of the proxy. */
#define WIRE_LEADS_FORM 1
#define WIRE_LEADS_MOST 64

/* How the place of a mount is found. */
#define WIRE_PLAN_STRAIGHT 1
#define WIRE_PLAN_ASKED 2
#define WIRE_PLAN_SAME_MODE 4

/* The steps of a plan: number, name, name in a failure, whether it may have been done ahead. */
#define WIRE_PLAN_STEPS(row) \
    row(1, SECLUDE, "seclude", true) \
    row(2, OOM_SCORE, "seclude", false) \
    row(3, UNSHARE, "namespaces", true) \
    row(4, LOOPBACK, "network", true) \
    row(5, READY, "namespaces", true) \
    row(6, NAME, "hostname", false) \
    row(7, SOURCE, "root", false) \
    row(8, LEAVE_PEERS, "root", false) \
    row(9, ROOT, "root", false) \
    row(10, FURNISH, "mounts", false) \
    row(11, MOUNT, "mounts", false) \
    row(12, BIND, "mounts", false) \
    row(13, PLACE, "mounts", false) \
    row(14, DEVICE, "devices", false) \
    row(15, LINK, "devices", false) \
    row(16, TERMINAL, "devices", false) \
    row(17, READ_ONLY, "protect", false) \
    row(18, MASK, "protect", false) \
    row(19, USER, "user", false) \
    row(20, DIRECTORY, "directory", false) \
    row(21, WAIT, "cgroup", false) \
    row(22, CGROUP, "cgroup", false) \
    row(23, CGROUP_NAMESPACE, "cgroup", false) \
    row(24, PARAMETER, "network", false) \
    row(25, HIERARCHIES, "mounts", false) \
    row(26, ROOT_READ_ONLY, "pivot", false) \
    row(27, PIVOT, "pivot", false) \
    row(28, CONTROL, "streams", false) \
    row(29, STREAMS, "streams", false) \
    row(30, LIMIT, "limits", false) \
    row(31, PROFILE, "privileges", false) \
    row(32, PRIVILEGES, "privileges", false) \
    row(33, EXECUTE, "exec", false) \
    row(34, JOIN, "namespaces", false) \
    row(35, ENTER_CGROUP, "cgroup", false) \
    row(36, CHANGE_DIRECTORY, "directory", false) \
    row(37, JOIN_TERMINAL, "terminal", false) \
    row(38, BEAR, "exec", false)

/* The words for errors that some C library words otherwise (engine.kernel.reasons). */
#define WIRE_REASONS(row) \
    row(EIO, "input/output error") \
    row(ECHILD, "no child processes") \
    row(ENOMEM, "cannot allocate memory") \
    row(EBUSY, "device or resource busy") \
    row(EXDEV, "invalid cross-device link") \
    row(EMFILE, "too many open files") \
    row(ENOTTY, "inappropriate ioctl for device") \
    row(ESPIPE, "illegal seek") \
    row(EDOM, "numerical argument out of domain") \
    row(ERANGE, "numerical result out of range") \
    row(EDEADLOCK, "resource deadlock avoided") \
    row(ENAMETOOLONG, "file name too long") \
    row(ELOOP, "too many levels of symbolic links") \
    row(ETIME, "timer expired") \
    row(EOVERFLOW, "value too large for defined data type") \
    row(EILSEQ, "invalid or incomplete multibyte or wide character") \
    row(ENOTSOCK, "socket operation on non-socket") \
    row(EMSGSIZE, "message too long") \
    row(ENOTSUP, "operation not supported") \
    row(EADDRINUSE, "address already in use") \
    row(EADDRNOTAVAIL, "cannot assign requested address") \
    row(ENETUNREACH, "network is unreachable") \
    row(ENETRESET, "network dropped connection on reset") \
    row(ECONNABORTED, "software caused connection abort") \
    row(EISCONN, "transport endpoint is already connected") \
    row(ENOTCONN, "transport endpoint is not connected") \
    row(ESHUTDOWN, "cannot send after transport endpoint shutdown") \
    row(ETIMEDOUT, "connection timed out") \
    row(EHOSTUNREACH, "no route to host") \
    row(EINPROGRESS, "operation now in progress") \
    row(EUCLEAN, "structure needs cleaning") \
    row(EDQUOT, "disk quota exceeded")

/* The message Started for printf(3), with int64_t for: pid, pid_start, started_ns. */
#define WIRE_STARTED "J{\"@\":\"Started\",\"#\":\"b985dd11\",\"pid\":%" PRId64 ",\"pid_start\":%" PRId64 ",\"started_ns\":%" PRId64 ",\"warnings\":[],\"keeps_waiters\":true,\"wakes\":true}"

/* The message Started for printf(3), with int64_t for: pid, pid_start, started_ns. */
#define WIRE_STARTED_WARNED "J{\"@\":\"Started\",\"#\":\"b985dd11\",\"pid\":%" PRId64 ",\"pid_start\":%" PRId64 ",\"started_ns\":%" PRId64 ",\"warnings\":[%s],\"keeps_waiters\":true,\"wakes\":true}"

/* The message Exited for printf(3), with int64_t for: exit_code, finished_ns, started_ns, waiters. */
#define WIRE_EXITED "J{\"@\":\"Exited\",\"#\":\"2ace27af\",\"exit_code\":%" PRId64 ",\"finished_ns\":%" PRId64 ",\"started_ns\":%" PRId64 ",\"waiters\":%" PRId64 "}"

/* The message NamespacesReady for printf(3), with int64_t for: pid, pid_start. */
#define WIRE_NAMESPACES_READY "J{\"@\":\"NamespacesReady\",\"#\":\"af42f016\",\"pid\":%" PRId64 ",\"pid_start\":%" PRId64 "}"

/* The message Failed for printf(3), with int64_t for: errno, exit_code. */
#define WIRE_FAILURE "J{\"@\":\"Failed\",\"#\":\"e3bca6b5\",\"step\":\"%s\",\"errno\":%" PRId64 ",\"text\":\"%s\",\"exit_code\":%" PRId64 "}"

/* The message Warned for printf(3). */
#define WIRE_WARNING "J{\"@\":\"Warned\",\"#\":\"f5db60ff\",\"text\":\"%s\"}"

/* The message Proceed for printf(3). */
#define WIRE_PROCEED "J{\"@\":\"Proceed\",\"#\":\"00000000\"}"

/* The message Detached for printf(3). */
#define WIRE_DETACHED "J{\"@\":\"Detached\",\"#\":\"00000000\"}"

/* The text of engine/logs/order.py and compress.py, without their docstrings and comments. */
#define WIRE_COMPRESS \
    "import errno\n" \
    "import os\n" \
    "import struct\n" \
    "STEPPED = 1 << 63\n" \
    "LATEST = STEPPED - 1\n" \
    "MARK = struct.Struct(\"<Q\")\n" \
    "_ATTRIBUTE = \"user.engine.order\"\n" \
    "_NO_MARK = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES})\n" \
    "\"\"\"The errno values for which a file goes without a mark: the file system has no attributes, or no room for one.\"\"\"\n" \
    "def read(fd: int) -> int | None:\n" \
    "    try:\n" \
    "        return MARK.unpack(os.getxattr(fd, _ATTRIBUTE))[0]  # type: ignore[no-any-return]\n" \
    "    except struct.error:\n" \
    "        return None\n" \
    "    except OSError as error:\n" \
    "        if error.errno in _NO_MARK:\n" \
    "            return None\n" \
    "        raise\n" \
    "def write(fd: int, mark: int, *, anew: bool) -> None:\n" \
    "    try:\n" \
    "        os.setxattr(fd, _ATTRIBUTE, MARK.pack(mark), 0 if anew else os.XATTR_REPLACE)\n" \
    "    except OSError as error:\n" \
    "        if error.errno not in _NO_MARK:\n" \
    "            raise\n" \
    "        if error.errno not in (errno.ENODATA, errno.ENOTSUP):\n" \
    "            _remove(fd)  # it is no longer true\n" \
    "def _remove(fd: int) -> None:\n" \
    "    try:\n" \
    "        os.removexattr(fd, _ATTRIBUTE)\n" \
    "    except OSError as error:\n" \
    "        if error.errno not in _NO_MARK:\n" \
    "            raise\n" \
    "def in_order(fd: int) -> bool:\n" \
    "    mark = read(fd)\n" \
    "    return mark is not None and not mark & STEPPED\n" \
    "import types\n" \
    "order = types.SimpleNamespace(read=read, write=write)\n" \
    "import os\n" \
    "import re\n" \
    "import zlib\n" \
    "from collections.abc import Iterator\n" \
    "from io import BufferedReader\n" \
    "_BLOCK = 1 << 18\n" \
    "_HEADER = b\"\\x1f\\x8b\\x08\\x14\\0\\0\\0\\0\\0\\xff\"\n" \
    "_COMMENT = b\"inode %d written %d\"\n" \
    "_ORIGIN = re.compile(rb\"inode (\\d{1,20}) written (\\d{1,20})\\0\")\n" \
    "_TAIL = 8192  # bytes at a file's end in which its last line's time is looked for\n" \
    "def compress_all(directory_fd: int, name: str, most: int) -> None:\n" \
    "    ends = (each.removeprefix(f\"{name}.\") for each in os.listdir(directory_fd))\n" \
    "    for number in sorted((int(end) for end in ends if end.isascii() and end.isdigit()), reverse=True):\n" \
    "        if number > most:\n" \
    "            continue\n" \
    "        old = f\"{name}.{number}\"\n" \
    "        try:\n" \
    "            source = os.open(old, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)\n" \
    "        except FileNotFoundError:\n" \
    "            continue  # it is compressed, or never existed\n" \
    "        with open(source, \"rb\") as file:\n" \
    "            _compress(file, directory_fd, f\"{name}.gz.new\")\n" \
    "        os.rename(f\"{name}.gz.new\", f\"{old}.gz\", src_dir_fd=directory_fd, dst_dir_fd=directory_fd)\n" \
    "        os.unlink(old, dir_fd=directory_fd)\n" \
    "def _compress(source: BufferedReader, directory_fd: int, to: str) -> None:\n" \
    "    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC\n" \
    "    with open(os.open(to, flags, 0o640, dir_fd=directory_fd), \"wb\") as made:\n" \
    "        old = os.fstat(source.fileno())\n" \
    "        extra = b'{\"lastTime\":\"%b\"}' % _last_time(source)  # by which dockerd passes over files that are too old\n" \
    "        comment = _COMMENT % (old.st_ino, old.st_mtime_ns)\n" \
    "        made.write(_HEADER + len(extra).to_bytes(2, \"little\") + extra + comment + b\"\\0\")\n" \
    "        mark = order.read(source.fileno())\n" \
    "        if mark is not None:\n" \
    "            order.write(made.fileno(), mark, anew=True)\n" \
    "        deflate, check, size = zlib.compressobj(wbits=-15), 0, 0\n" \
    "        while block := source.read(_BLOCK):\n" \
    "            check, size = zlib.crc32(block, check), size + len(block)\n" \
    "            made.write(deflate.compress(block))\n" \
    "        made.write(deflate.flush() + check.to_bytes(4, \"little\") + (size & 0xFFFFFFFF).to_bytes(4, \"little\"))\n" \
    "        made.flush()\n" \
    "        os.fdatasync(made.fileno())  # before the uncompressed file is removed\n" \
    "def origin(fd: int) -> tuple[int, int] | None:\n" \
    "    head = os.pread(fd, 1024, 0)\n" \
    "    if not head.startswith(_HEADER):\n" \
    "        return None\n" \
    "    found = _ORIGIN.match(head, len(_HEADER) + 2 + int.from_bytes(head[len(_HEADER) : len(_HEADER) + 2], \"little\"))\n" \
    "    return (int(found[1]), int(found[2])) if found else None\n" \
    "def unpacked(fd: int) -> Iterator[bytes]:\n" \
    "    inflate, place = zlib.decompressobj(wbits=31), 0\n" \
    "    while packed := os.pread(fd, _BLOCK, place):\n" \
    "        place += len(packed)\n" \
    "        try:\n" \
    "            yield inflate.decompress(packed)\n" \
    "        except zlib.error:\n" \
    "            return\n" \
    "def _last_time(source: BufferedReader) -> bytes:\n" \
    "    size = os.fstat(source.fileno()).st_size\n" \
    "    tail = os.pread(source.fileno(), _TAIL, max(size - _TAIL, 0))\n" \
    "    return tail.rpartition(b'\"time\":\"')[2].partition(b'\"')[0]\n" \
    ""

#endif
