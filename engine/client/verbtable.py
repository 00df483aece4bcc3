"""The table of the client's verbs, from which parsing, help and completions come.

Data alone: the module of a verb's function and options is named here, and loaded when that verb is asked for.
"""

from collections.abc import Sequence

from engine.commandline import Option
from engine.dataclass import dataclass

RUN_FAILED = 125


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the client.

    name, aliases: its words, such as `network create`
    module: below engine.client; its `FUNCTIONS` have the function and the options of each of its verbs, by their names
    arguments: how many other arguments it takes: at least, at most (None: any number)
    completes: what its arguments are, see `completing`; the last one stands for all that follow
    interspersed: options may follow the first argument
    remote: it speaks to the daemon that the user has chosen; otherwise its function gets None for the Api
    hidden: no help text names it
    failed: the exit status where the daemon refuses, or cannot be reached
    """

    name: str
    usage: str
    help: str
    module: str
    arguments: tuple[int, int | None] = (0, 0)
    completes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    interspersed: bool = True
    remote: bool = True
    hidden: bool = False
    failed: int = 1


_ONE, _SOME, _ANY = (1, 1), (1, None), (0, None)
_EACH = "CONTAINER [CONTAINER...]"

VERBS = (
    Verb(
        "run",
        "IMAGE [COMMAND] [ARG...]",
        "Create and run a new container from an image",
        "container.run",
        _SOME,
        ("image", ""),
        ("container run",),
        interspersed=False,
        failed=RUN_FAILED,
    ),
    Verb(
        "exec",
        "CONTAINER COMMAND [ARG...]",
        "Execute a command in a running container",
        "container.running",
        (2, None),
        ("running", ""),
        ("container exec",),
        interspersed=False,
    ),
    Verb(
        "ps",
        "",
        "List containers",
        "container.containerlist",
        aliases=("container ls", "container list", "container ps"),
    ),
    Verb(
        "build",
        "PATH | URL | -",
        "Build an image from a Dockerfile",
        "image.buildverb",
        _ONE,
        ("directory",),
        ("image build",),
    ),
    Verb(
        "pull",
        "NAME[:TAG|@DIGEST]",
        "Download an image from a registry",
        "image.fetch",
        _ONE,
        ("image",),
        ("image pull",),
    ),
    Verb("push", "NAME[:TAG]", "Upload an image to a registry", "image.fetch", _ONE, ("image",), ("image push",)),
    Verb(
        "images", "[REPOSITORY[:TAG]]", "List images", "image.imagelist", (0, 1), ("image",), ("image ls", "image list")
    ),
    Verb(
        "create",
        "IMAGE [COMMAND] [ARG...]",
        "Create a new container",
        "container.run",
        _SOME,
        ("image", ""),
        ("container create",),
        interspersed=False,
    ),
    Verb(
        "start",
        _EACH,
        "Start one or more stopped containers",
        "container.attaching",
        _SOME,
        ("stopped",),
        ("container start",),
    ),
    Verb(
        "attach",
        "CONTAINER",
        "Attach local standard input, output, and error streams to a running container",
        "container.attaching",
        _ONE,
        ("running",),
        ("container attach",),
    ),
    Verb(
        "logs",
        "CONTAINER",
        "Fetch the logs of a container",
        "container.saying",
        _ONE,
        ("container",),
        ("container logs",),
    ),
    Verb(
        "stop", _EACH, "Stop one or more running containers", "container.each", _SOME, ("running",), ("container stop",)
    ),
    Verb(
        "restart",
        _EACH,
        "Restart one or more containers",
        "container.each",
        _SOME,
        ("container",),
        ("container restart",),
    ),
    Verb(
        "kill", _EACH, "Kill one or more running containers", "container.each", _SOME, ("running",), ("container kill",)
    ),
    Verb(
        "pause",
        _EACH,
        "Pause all processes within one or more containers",
        "container.each",
        _SOME,
        ("running",),
        ("container pause",),
    ),
    Verb(
        "unpause",
        _EACH,
        "Unpause all processes within one or more containers",
        "container.each",
        _SOME,
        ("running",),
        ("container unpause",),
    ),
    Verb(
        "wait",
        _EACH,
        "Block until one or more containers stop, then print their exit codes",
        "container.each",
        _SOME,
        ("container",),
        ("container wait",),
    ),
    Verb(
        "rm",
        _EACH,
        "Remove one or more containers",
        "container.each",
        _SOME,
        ("container",),
        ("container rm", "container remove"),
    ),
    Verb(
        "rename",
        "CONTAINER NEW_NAME",
        "Rename a container",
        "container.each",
        (2, 2),
        ("container", ""),
        ("container rename",),
    ),
    Verb(
        "cp",
        "CONTAINER:SRC_PATH DEST_PATH|- | SRC_PATH|- CONTAINER:DEST_PATH",
        "Copy files/folders between a container and the local filesystem",
        "container.copying",
        (2, 2),
        ("copied",),
        ("container cp",),
    ),
    Verb(
        "top",
        "CONTAINER [ps OPTIONS]",
        "Display the running processes of a container",
        "container.processes",
        _SOME,
        ("running", ""),
        ("container top",),
        interspersed=False,
    ),
    Verb(
        "port",
        "CONTAINER [PRIVATE_PORT[/PROTO]]",
        "List port mappings or a specific mapping for the container",
        "container.processes",
        (1, 2),
        ("running", ""),
        ("container port",),
    ),
    Verb(
        "stats",
        "[CONTAINER...]",
        "Display a live stream of container(s) resource usage statistics",
        "container.livestats",
        _ANY,
        ("running",),
        ("container stats",),
    ),
    Verb(
        "rmi",
        "IMAGE [IMAGE...]",
        "Remove one or more images",
        "image.tagging",
        _SOME,
        ("image",),
        ("image rm", "image remove"),
    ),
    Verb(
        "tag",
        "SOURCE_IMAGE[:TAG] TARGET_IMAGE[:TAG]",
        "Create a tag TARGET_IMAGE that refers to SOURCE_IMAGE",
        "image.tagging",
        (2, 2),
        ("image",),
        ("image tag",),
    ),
    Verb(
        "save",
        "IMAGE [IMAGE...]",
        "Save one or more images to a tar archive (streamed to STDOUT by default)",
        "image.tarballs",
        _SOME,
        ("image",),
        ("image save",),
    ),
    Verb("load", "", "Load an image from a tar archive or STDIN", "image.tarballs", aliases=("image load",)),
    Verb(
        "image-from-host",
        "NAME PROGRAM...",
        "Make an image of programs of this host and what they need",
        "image.fetch",
        (2, None),
        ("image", "file"),
    ),
    Verb(
        "inspect",
        "NAME|ID [NAME|ID...]",
        "Return low-level information on objects of the engine",
        "inspecting",
        _SOME,
        ("object",),
    ),
    Verb("events", "", "Get real time events from the server", "eventlines", aliases=("system events",)),
    Verb("info", "", "Display system-wide information", "system", aliases=("system info",)),
    Verb("version", "", "Show the version information of client and daemon", "system"),
    Verb("demo", "", "Show the main job on a private daemon: nothing installed", "demo", remote=False),
    Verb(
        "completion",
        "bash|zsh|fish",
        "Write what a shell needs to complete the words of engine",
        "completion",
        _ONE,
        ("bash zsh fish",),
        remote=False,
    ),
    Verb(
        "__complete",
        "WORD...",
        "Show what may stand in the place of the last word",
        "completing",
        _ANY,
        interspersed=False,
        remote=False,
        hidden=True,
    ),
    Verb(
        "container inspect",
        _EACH,
        "Display detailed information on one or more containers",
        "inspecting",
        _SOME,
        ("container",),
    ),
    Verb("container prune", "", "Remove all stopped containers", "pruning"),
    Verb(
        "image inspect",
        "IMAGE [IMAGE...]",
        "Display detailed information on one or more images",
        "inspecting",
        _SOME,
        ("image",),
    ),
    Verb("image prune", "", "Remove unused images", "pruning"),
    Verb("network create", "NETWORK", "Create a network", "networks", _ONE),
    Verb(
        "network connect",
        "NETWORK CONTAINER",
        "Connect a container to a network",
        "networks",
        (2, 2),
        ("network", "container"),
    ),
    Verb(
        "network disconnect",
        "NETWORK CONTAINER",
        "Disconnect a container from a network",
        "networks",
        (2, 2),
        ("network", "container"),
    ),
    Verb(
        "network inspect",
        "NETWORK [NETWORK...]",
        "Display detailed information on one or more networks",
        "inspecting",
        _SOME,
        ("network",),
    ),
    Verb("network ls", "", "List networks", "networks", aliases=("network list",)),
    Verb("network prune", "", "Remove all unused networks", "pruning"),
    Verb(
        "network rm",
        "NETWORK [NETWORK...]",
        "Remove one or more networks",
        "networks",
        _SOME,
        ("network",),
        ("network remove",),
    ),
    Verb("volume create", "[VOLUME]", "Create a volume", "volumes", (0, 1)),
    Verb(
        "volume inspect",
        "VOLUME [VOLUME...]",
        "Display detailed information on one or more volumes",
        "inspecting",
        _SOME,
        ("volume",),
    ),
    Verb("volume ls", "", "List volumes", "volumes", aliases=("volume list",)),
    Verb("volume prune", "", "Remove unused local volumes", "pruning"),
    Verb(
        "volume rm",
        "VOLUME [VOLUME...]",
        "Remove one or more volumes",
        "volumes",
        _SOME,
        ("volume",),
        ("volume remove",),
    ),
    Verb("system df", "", "Show the engine's disk usage", "spaceused"),
    Verb("system dial-stdio", "", "Proxy the stdio stream to the daemon connection", "door.stdio"),
    Verb("system prune", "", "Remove unused data", "pruning"),
)
GROUPS = {
    "container": "Manage containers",
    "image": "Manage images",
    "network": "Manage networks",
    "system": "Manage the engine",
    "volume": "Manage volumes",
}
GLOBAL_OPTIONS = (
    Option(
        *("host", "Daemon to speak to, instead of ENGINE_HOST or DOCKER_HOST: unix://PATH, tcp://HOST or ssh://HOST"),
        short="H",
        value="address",
    ),
    Option("tls", "Use TLS on tcp://, with the files of DOCKER_CERT_PATH", kind="flag", default=False),
    Option("tlsverify", "Use TLS, and have the daemon show who it is", kind="flag", default=False),
    Option("help", "Show this text", kind="flag", default=False),
    Option("version", "Show the client's version", short="v", kind="flag", default=False),
)
HELP = Option("help", "Print usage", kind="flag", default=False)


def named(words: Sequence[str]) -> tuple[Verb | None, list[str]]:
    """The verb that these words begin with, by any of its names, and the words behind its name; (None, []) for none."""
    for count in (2, 1):
        name = " ".join(words[:count])
        for verb in VERBS:
            if len(words) >= count and (verb.name == name or name in verb.aliases):
                return verb, list(words[count:])
    return None, []
