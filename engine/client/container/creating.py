"""Makes the request that creates a container of the options of `run` and `create`, and sends it.

Runs in the client's one thread. A missing image is pulled first, as `--pull` says.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from engine.annotating import Any
from engine.client.api import Api, ApiError, image_path
from engine.client.container import envfiles, mountflags, portflags
from engine.client.container.createoptions import SETTINGS
from engine.client.image.fetch import pull
from engine.client.terminal import size
from engine.client.transport import Object
from engine.commandline import Given, given_text, given_texts
from engine.errors import Invalid
from engine.kernel import reasons
from engine.literals import integer

_NOT_FOUND = 404
_PULLS = ("always", "missing", "never")


def create(api: Api, image: str, command: Sequence[str], given: Given, attached: bool) -> tuple[str, Object]:
    """Create a container: returns (its id, the request's body). Raises Invalid, ApiError.

    attached: this terminal will be its own
    """
    pulls = given_text(given, "pull", "missing")
    if pulls not in _PULLS:
        raise Invalid(f'invalid pull option: \'{pulls}\': must be one of "always", "missing" or "never"')
    body = creation(image, command, given, os.environ, attached)
    noted = _Note(given_text(given, "cidfile"))
    try:
        answer = _created(api, image, body, given, pulls)
    except BaseException:
        noted.forget()
        raise
    for warning in answer.get("Warnings") or ():
        print(f"WARNING: {warning}", file=sys.stderr)
    container = str(answer["Id"])
    noted.write(container)
    return container, body


def _created(api: Api, image: str, body: Object, given: Given, pulls: str) -> Object:
    query = {"name": given_text(given, "name") or None, "platform": given_text(given, "platform") or None}
    platform, quiet = given_text(given, "platform"), bool(given.get("quiet"))
    if pulls == "always":
        pull(api, image, sys.stderr, platform, quiet)
    try:
        answer: Object = api.call("POST", "/containers/create", query, body)
    except ApiError as error:
        # The body may also name a network or a volume that is missing.
        # One for another platform than the wanted one may be there.
        if error.status != _NOT_FOUND or pulls != "missing" or (not platform and _is_there(api, image)):
            raise
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        pull(api, image, sys.stderr, platform, quiet)
        answer = api.call("POST", "/containers/create", query, body)
    return answer


def _is_there(api: Api, image: str) -> bool:
    try:
        api.call("GET", image_path(image, "json"))
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    return True


def creation(image: str, command: Sequence[str], given: Given, environ: Mapping[str, str], attached: bool) -> Object:
    """The body of POST /containers/create for these options. Raises Invalid."""
    stdin, streams = bool(given.get("interactive")), given_texts(given, "attach")
    enters, shows = (stdin and not streams) or "stdin" in streams, not streams
    body: Object = {
        "Image": image,
        "Cmd": list(command) or None,
        "Env": envfiles.settings(given_texts(given, "env-file"), given_texts(given, "env"), environ),
        "Labels": envfiles.labels(given_texts(given, "label-file"), given_texts(given, "label")),
        "Tty": False,
        "OpenStdin": stdin,
        "StdinOnce": stdin and attached,
        "AttachStdin": enters and attached,
        "AttachStdout": attached and (shows or "stdout" in streams),
        "AttachStderr": attached and (shows or "stderr" in streams),
        "HostConfig": {"NetworkMode": "default", "AutoRemove": False},
    }
    for setting in SETTINGS:
        if setting.option.name in given:
            put(body, setting.field, setting.form(given[setting.option.name]))
    if "entrypoint" in given:
        body["Entrypoint"] = [given_text(given, "entrypoint")]
    if given.get("no-healthcheck"):
        if "Healthcheck" in body:
            raise Invalid("--no-healthcheck conflicts with --health-* options")
        body["Healthcheck"] = {"Test": ["NONE"]}
    host = body["HostConfig"]
    if body["Tty"] and attached and (found := size(1)) is not None:
        host["ConsoleSize"] = list(found)
    host["RestartPolicy"] = _restart(given_text(given, "restart", "no"), host["AutoRemove"])
    host["Mounts"] = [mountflags.mount(text) for text in given_texts(given, "mount")]
    host["Binds"], body["Volumes"] = mountflags.volumes(given_texts(given, "volume"))
    ports, host["PortBindings"] = portflags.published(given_texts(given, "publish"))
    body["ExposedPorts"] = ports | portflags.exposed(given_texts(given, "expose"))
    host["SecurityOpt"] = [_security(text) for text in given_texts(given, "security-opt")]
    _join_networks(body, given)
    return body


def put(body: Object, field: str, value: Any) -> None:
    """Set a field by its path, such as `HostConfig.LogConfig.Type`."""
    *path, last = field.split(".")
    for name in path:
        body = body.setdefault(name, {})
    body[last] = value


def _restart(text: str, removed: bool) -> Object:
    name, separator, count = text.partition(":")
    try:
        most = integer(count) if separator else 0
    except Invalid as error:
        raise Invalid("invalid restart policy format: maximum retry count must be an integer") from error
    if removed and name not in ("", "no"):
        raise Invalid("conflicting options: cannot specify both --restart and --rm")
    return {"Name": name, "MaximumRetryCount": most}


def _security(text: str) -> str:
    """A security option; the client reads the file of a seccomp profile, which the daemon may not have."""
    name, separator, value = text.partition("=")
    if not separator:
        name, separator, value = text.partition(":")
    if name != "seccomp" or value in ("", "unconfined", "builtin"):
        return text
    try:
        with open(value, encoding="utf-8") as file:
            return f"seccomp={file.read()}"
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"opening seccomp profile ({value}) failed: {reasons.whole(error)}") from error


def _join_networks(body: Object, given: Given) -> None:
    """The networks, of which the first one is the container's mode; aliases and addresses are of that one."""
    found = [portflags.network(text) for text in given_texts(given, "network")]
    if any(not name for name, _ in found):
        raise Invalid("no name set for network")
    if found:
        body["HostConfig"]["NetworkMode"] = found[0][0]
    name, first = found[0] if found else ("default", {})
    if aliases := given_texts(given, "network-alias"):
        first["Aliases"] = [*first.get("Aliases", ()), *aliases]
    for option, field in (("ip", "IPv4Address"), ("ip6", "IPv6Address")):
        if option in given:
            first.setdefault("IPAMConfig", {})[field] = given_text(given, option)
    if locals_ := given_texts(given, "link-local-ip"):
        first.setdefault("IPAMConfig", {})["LinkLocalIPs"] = list(locals_)
    if "mac-address" in given:
        first["MacAddress"] = given_text(given, "mac-address")
    endpoints = dict(found) if len(found) > 1 else {}
    if first:
        endpoints[name] = first
    if endpoints:
        body["NetworkingConfig"] = {"EndpointsConfig": endpoints}


class _Note:
    """The file of `--cidfile`, which must not be there before; an empty path is none."""

    def __init__(self, path: str) -> None:
        self._file: int | None = None
        if not path:
            return
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError as error:
            raise Invalid(
                f"container ID file found, make sure the other container isn't running or delete {path}"
            ) from error
        except OSError as error:
            reason = f"open {path}: {reasons.of(error)}"
            raise Invalid(f"failed to create the container ID file: {reason}") from error
        self._path = path

    def write(self, container: str) -> None:
        """Note the id."""
        if self._file is not None:
            os.write(self._file, container.encode())
            os.close(self._file)

    def forget(self) -> None:
        """Remove the file: there is no container."""
        if self._file is not None:
            os.close(self._file)
            os.unlink(self._path)
