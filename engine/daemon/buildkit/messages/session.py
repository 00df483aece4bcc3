"""The messages of the services that a client offers in its session (buildkit, session/*/*.proto)."""

from typing import Annotated, TypedDict


class BytesMessage(TypedDict, total=False):
    """A piece of a stream: of FileSend, SSH and Upload."""

    data: Annotated[bytes, 1]


class CredentialsRequest(TypedDict, total=False):
    Host: Annotated[str, 1]


class CredentialsResponse(TypedDict, total=False):
    Username: Annotated[str, 1]
    Secret: Annotated[str, 2]


class FetchTokenRequest(TypedDict, total=False):
    ClientID: Annotated[str, 1]
    Host: Annotated[str, 2]
    Realm: Annotated[str, 3]
    Service: Annotated[str, 4]
    Scopes: Annotated[list[str], 5]


class FetchTokenResponse(TypedDict, total=False):
    Token: Annotated[str, 1]
    ExpiresIn: Annotated[int, 2]
    IssuedAt: Annotated[int, 3]


class GetSecretRequest(TypedDict, total=False):
    ID: Annotated[str, 1]
    annotations: Annotated[dict[str, str], 2]


class GetSecretResponse(TypedDict, total=False):
    data: Annotated[bytes, 1]


class CheckAgentRequest(TypedDict, total=False):
    ID: Annotated[str, 1]


class CheckAgentResponse(TypedDict, total=False):
    pass


class HealthCheckRequest(TypedDict, total=False):
    service: Annotated[str, 1]


class HealthCheckResponse(TypedDict, total=False):
    """status: 1 for healthy"""

    status: Annotated[int, 1]
