"""Says what a Debian package has beside the engine: units, manual pages, completions, the licence, the changes.

Makes texts of tables that the engine has anyway. It opens no file but the engine's own.
"""

import gzip
import time

from engine import origin
from engine.bundle import manual
from engine.bundle.deb import Entry
from engine.check import main as checking
from engine.client import completion, helptexts, verbs, verbtable
from engine.inspection import verb as inspecting
from engine.listen import main as listening
from engine.migrate import asked
from engine.settings import advertised, every
from engine.units import install

_SUMMARY = "container engine that speaks the Docker Engine API"
_COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: engine

Files: *
Copyright: the maintainers of engine
License: Apache-2.0
 On Debian systems the whole licence is in
 /usr/share/common-licenses/Apache-2.0.
"""
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/engine",
    "zsh": "usr/share/zsh/vendor-completions/_engine",
    "fish": "usr/share/fish/vendor_completions.d/engine.fish",
}


def entries(program: bytes, bundling: str, moment: int) -> dict[str, Entry]:
    """The files of the package. bundling: the help text of `engine bundle`; moment: of the build, in seconds."""
    found = {
        "usr/bin/engine": Entry(program, 0o755),
        "usr/bin/engined": Entry(link="engine"),
        "usr/share/doc/engine/copyright": Entry(_COPYRIGHT.encode()),
        "usr/share/doc/engine/changelog.gz": Entry(_packed(_changes(moment))),
        "usr/share/man/man1/engine.1.gz": Entry(_packed(client_page(bundling))),
        "usr/share/man/man8/engined.8.gz": Entry(_packed(daemon_page())),
    }
    for shell, place in _COMPLETIONS.items():
        found[place] = Entry(completion.SCRIPTS[shell].encode())
    for unit in install.UNITS:
        found[f"usr/lib/systemd/system/{unit}"] = Entry(origin.data(f"units/{unit}"))
        found[f"usr/lib/systemd/user/{unit}"] = Entry(origin.data(f"units/user/{unit}"))
    return found


def client_page(bundling: str) -> str:
    """The manual page engine(1)."""
    tools = (listening.usage(), checking.usage(), inspecting.usage(), install.usage(), asked.usage(), bundling)
    shown = [verb for verb in verbtable.VERBS if not verb.hidden]
    of_verbs = [helptexts.verb_usage(verb, (*verbs.options_of(verb), verbtable.HELP)) for verb in shown]
    helps = [helptexts.usage(), *of_verbs, *tools]
    return manual.page("engine", 1, advertised.VERSION, _SUMMARY, helps)


def daemon_page() -> str:
    """The manual page engined(8)."""
    return manual.page("engined", 8, advertised.VERSION, f"daemon of a {_SUMMARY}", [every.usage()])


def _changes(moment: int) -> str:
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(moment))
    return f"""engine ({advertised.VERSION}) unstable; urgency=medium

  * The engine as it is in its own tree.

 -- The maintainers of engine <maintainers@localhost>  {date}
"""


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)
