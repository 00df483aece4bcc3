"""What a developer's shell tells programs, and the tests do not want told: the run forgets it when it begins."""

import os
import re
from collections.abc import MutableMapping

# Of docker and its kin, git, ssh, proxies, service managers, the language, the time zone and the terminal.
FOREIGN = re.compile(
    r"(BUILDCTL|BUILDKIT|BUILDX|COMPOSE|CONTAINERS|DOCKER|GIT|LC|LISTEN|SSH)_.*|((HTTPS?|FTP|ALL|NO)_PROXY)"
    r"|XDG_(CONFIG|DATA|RUNTIME|STATE)_.*|NOTIFY_SOCKET|SOURCE_DATE_EPOCH|LANG|LANGUAGE|TZ|COLUMNS|LINES|(NO|FORCE)_COLOR"
    r"|PAGER|EDITOR|VISUAL|CDPATH",
    re.IGNORECASE,
)
UMASK = 0o022


def forget(environment: MutableMapping[str, str] = os.environ) -> None:
    """Take those out of the environment, and make files with the usual rights."""
    os.umask(UMASK)
    for name in [name for name in environment if FOREIGN.fullmatch(name)]:
        del environment[name]
