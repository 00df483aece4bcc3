"""What a server of BuildKit says that it can do (buildkit, util/apicaps/pb/caps.proto)."""

from typing import Annotated, TypedDict


class APICap(TypedDict, total=False):
    ID: Annotated[str, 1]
    Enabled: Annotated[bool, 2]
    Deprecated: Annotated[bool, 3]
    DisabledReason: Annotated[str, 4]
    DisabledReasonMsg: Annotated[str, 5]
    DisabledAlternative: Annotated[str, 6]
