"""Entry point of the resolver process, which the spawner forks for the first container of a user-defined network.

One thread. No process waits for the resolver or reads its output. The reason of a failure is left in a file of the exec
root, for the daemon to log when it starts another resolver.
"""

from engine.kernel import title
from engine.resolver.service import Resolver
from engine.wire import channel, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver


def main(data: bytes, descriptors: list[int]) -> int:
    """Be the resolver that this request (`BeResolver`) asks for; returns the process's exit status."""
    asked, (link,) = channel.unpack(data, descriptors)
    assert isinstance(asked, BeResolver)
    title.become("resolver")
    try:
        Resolver(asked.exec_root, Channel.adopt(link)).run()
    except BaseException:
        exitfile.write_crash(asked.exec_root, exitfile.RESOLVER_CRASH)
        return 1
    return 0
