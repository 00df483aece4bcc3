"""The capabilities of operations that this engine has: what a client may use in a graph, by BuildKit's names for them.

Pure data, and the check of what a graph says that it uses. A name stands here once what it names is built, and not
before: clients do without the others, or are refused in words. The names are those of buildkit's solver/pb/caps.go.
"""

from collections.abc import Iterable

from engine.errors import NotBuilt

CAPABILITIES: tuple[str, ...] = (
    *("source.image", "source.image.checksum", "source.image.layerlimit", "source.image.resolvemode"),
    *("source.local", "source.local.differ", "source.local.excludepatterns", "source.local.followpaths"),
    *("source.local.includepatterns", "source.local.sessionid", "source.local.sharedkeyhint", "source.local.unique"),
    *("source.ocilayout", "source.imageblob", "source.http", "source.http.auth", "source.http.checksum"),
    *("source.http.header", "source.http.perm"),
    "soruce.http.uidgid",  # BuildKit's own spelling
    *("source.git", "source.git.checksum", "source.git.fetchbycommit", "source.git.fullurl", "source.git.httpauth"),
    *(
        "source.git.keepgitdir",
        "source.git.knownsshhosts",
        "source.git.mountsshsock",
        "source.git.mtime",
        "source.git.skipsubmodules",
    ),
    *("source.git.subdir", "source.policy", "source.policy.session"),
    *("exec.meta.base", "exec.meta.cdi", "exec.meta.cgroup.parent", "exec.meta.linux.resources", "exec.meta.network"),
    *("exec.meta.proxyenv", "exec.meta.removemountstubs.recursive", "exec.meta.security", "exec.meta.setsdefaultpath"),
    *("exec.meta.ulimit", "exec.mount.bind", "exec.mount.bind.readwrite-nooutput", "exec.mount.cache"),
    *("exec.mount.cache.sharing", "exec.mount.secret", "exec.mount.selector", "exec.mount.ssh", "exec.mount.tmpfs"),
    *("exec.mount.tmpfs.size", "exec.secretenv", "exec.validexitcode"),
    *("file.base", "file.copy.alwaysreplaceexistingdestpaths", "file.copy.includeexcludepatterns"),
    *("file.copy.modestring", "file.rm.nofollowsymlink", "file.rm.wildcard", "file.symlink.create"),
    *("diffop", "mergeop", "source.buildop.llbfilename"),
    *("constraints", "platform", "meta.description", "meta.ignorecache", "passthroughop"),
)


def check(wanted: Iterable[str]) -> None:
    """Raise NotBuilt for a capability that this engine does not have."""
    for name in wanted:
        if name not in CAPABILITIES:
            raise NotBuilt(f"the capability {name} of a graph of operations (LLB) is not built in this engine")
