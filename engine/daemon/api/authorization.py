"""Asks the authorization plugins about each request before it is served, and about its answer before that is sent.

It stands between the connections and the dispatcher, and runs in the request's thread. It fails closed: a plugin that
cannot be asked denies. All plugins have to allow, in the order of the settings. What a plugin is told of a request is
what the dispatcher will act upon: the path decoded once and without the slash at its end, and the whole body of JSON.
An answer that is streamed, or for which the connection is taken over, has been sent when the plugins are asked about
it; that one of them denies it then is logged, and a stream that still goes on is cut.
docs.docker.com/engine/extend/plugins_authorization says what is told.
"""

import base64
import logging

from engine.daemon.api.answers import JSON_TYPE, Json, Response
from engine.daemon.api.body import is_json
from engine.daemon.api.connection import Application
from engine.daemon.api.request import Request
from engine.daemon.api.versions import split_version
from engine.daemon.jsontext import Object
from engine.daemon.plugins.activation import AUTHORIZATION, Plugins
from engine.errors import EngineError, Invalid, SystemFailure

log = logging.getLogger(__name__)

BODY_LIMIT = 4 * 1024 * 1024
_REQUEST, _RESPONSE = "AuthZPlugin.AuthZReq", "AuthZPlugin.AuthZRes"
_SECRET = frozenset({"authorization", "x-registry-config", "x-registry-auth"})
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@!$&'()*+,;=")


def check(plugins: Plugins, names: tuple[str, ...]) -> None:
    """At a daemon's start: raise SystemFailure for a plugin that is not there or does not authorize."""
    for name in names:
        try:
            plugins.get(name, AUTHORIZATION)
        except EngineError as error:
            raise SystemFailure(f"error validating authorization plugin: {error}") from error


class Authorized:
    """Serves what the plugins of these names allow."""

    def __init__(self, serve: Application, plugins: Plugins, names: tuple[str, ...]) -> None:
        self._serve, self._plugins = serve, plugins
        self._names = tuple(dict.fromkeys(names))

    def __call__(self, request: Request) -> Response | None:
        """Answer a request; raises nothing but ClientGone."""
        uri = _uri(request)
        try:
            told = _told_of(request, uri)
            refusal = self._ask(_REQUEST, told)
        except EngineError as error:
            refusal = Json({"message": str(error)}, 400 if isinstance(error, Invalid) else 500)
        if refusal is not None:
            log.warning("%s %r was not allowed", request.method, request.path)
            return refusal
        answer = self._serve(request)
        if answer is not None:
            told |= _told_of_answer(answer, uri)
        refusal = self._ask(_RESPONSE, told)
        if refusal is None or (answer is not None and answer.status >= 400):
            return answer
        log.warning("the answer to %s %r was not allowed", request.method, request.path)
        if answer is None:
            request.abort()
            return None
        return refusal

    def _ask(self, method: str, told: Object) -> Response | None:
        """The refusal of the first plugin that does not allow it; None when all do."""
        for name in self._names:
            try:
                said = self._plugins.get(name, AUTHORIZATION).call(method, told)
            except EngineError as error:
                return Json({"message": f"plugin {name} failed with error: {error}"}, 500)
            if said.get("Allow") is not True:
                why = said.get("Msg")
                shown = why if isinstance(why, str) else ""
                return Json({"message": f"authorization denied by plugin {name}: {shown}"}, 403)
        return None


def _uri(request: Request) -> str:
    """The path and query that the request is about, in one form however the client has written them."""
    path = request.path.rstrip("/") or "/"
    shown = "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in path.encode("utf-8", "surrogateescape"))
    return f"{shown}?{request.head.query}" if request.head.query else shown


def _told_of(request: Request, uri: str) -> Object:
    """Raises Invalid for a body that does not end, SystemFailure for one that is too large."""
    told: Object = {"RequestMethod": request.method, "RequestUri": uri}
    user, certificate = request.shown_by()
    if certificate:
        told |= {"User": user, "UserAuthNMethod": "TLS", "RequestPeerCertificates": [_encoded(certificate.encode())]}
    if _has_body(uri, request.headers.get("content-type", "")):
        body = request.body.read(BODY_LIMIT + 1)
        if len(body) > BODY_LIMIT:
            raise SystemFailure(f"request body too large for authorization plugin: size exceeds {BODY_LIMIT} bytes")
        request.body.put_back(body)
        if body:
            told["RequestBody"] = _encoded(body)
    headers = {_canonical(name): value for name, value in request.headers.items() if name not in _SECRET}
    if headers:
        told["RequestHeaders"] = headers
    return told


def _told_of_answer(answer: Response, uri: str) -> Object:
    headers = dict(answer.fields)
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    told: Object = {"ResponseStatusCode": answer.status, "ResponseHeaders": headers}
    if answer.content_type == JSON_TYPE and answer.body and not _is_of_credentials(uri):
        told["ResponseBody"] = _encoded(answer.body)
    return told


def _has_body(uri: str, content_type: str) -> bool:
    return is_json(content_type) and not _is_of_credentials(uri)


def _is_of_credentials(uri: str) -> bool:
    """Whether it is a login, whose body no plugin sees."""
    return split_version(uri.partition("?")[0])[1].startswith("/auth")


def _canonical(name: str) -> str:
    """A header's name as Go's net/http has it."""
    return "-".join(part[:1].upper() + part[1:] for part in name.split("-"))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
