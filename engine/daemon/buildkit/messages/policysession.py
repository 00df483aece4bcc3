"""What a client is asked about a source, and what it decides (buildkit, sourcepolicy/policysession)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages import gateway, ops


class CheckPolicyRequest(TypedDict, total=False):
    Platform: Annotated[ops.Platform | None, 1]
    Source: Annotated[gateway.ResolveSourceMetaResponse | None, 2]
    caps: Annotated[dict[str, bool], 3]


class DenyMessage(TypedDict, total=False):
    message: Annotated[str, 1]


class DecisionResponse(TypedDict, total=False):
    action: Annotated[int, 1]
    denyMessages: Annotated[list[DenyMessage], 2]
    update: Annotated[ops.SourceOp | None, 3]


class CheckPolicyResponse(TypedDict, total=False):
    decision: Annotated[DecisionResponse | None, 1]
    request: Annotated[gateway.ResolveSourceMetaRequest | None, 2]
