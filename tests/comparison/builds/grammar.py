"""Dockerfiles, contexts and options drawn from a grammar: what is ordinary, and what few people write. Pure.

`case(Random(seed))` is one build. The words of a Dockerfile lean towards what builders may read in two ways: variables,
paths, links, owners, modes, platforms, stages. What is wrong is seldom drawn, since it ends a build.
"""

from collections.abc import Sequence
from random import Random

from tests.comparison.builds import pools
from tests.comparison.builds.case import EPOCH, Case, File

CALM, WILD = 0.01, 0.12  # how often a wrong word is drawn, in most builds and in some


class Drawing:
    """One Dockerfile that is being drawn. base: what the stage begins with; stages: the names of those before it"""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.wrong = chance.choice((CALM, CALM, CALM, WILD))
        self.files = self.context()
        self.stages: list[str] = []
        self.base = "scratch"

    def pick(self, right: Sequence[str], wrong: Sequence[str] = ()) -> str:
        """One of those that are right; seldom one of the others."""
        return self.chance.choice(wrong if wrong and self.often(self.wrong) else right)

    def often(self, share: float) -> bool:
        """True so often."""
        return self.chance.random() < share

    def context(self) -> tuple[File, ...]:
        """Files of the pool, each name once."""
        found: dict[str, File] = {}
        for group in self.chance.sample(pools.FILES, self.chance.choice((1, 2, 3, 5, 8))):
            for each in group:
                found.setdefault(each.name, each)
        return tuple(found.values())

    def value(self) -> str:
        """A word that may have variables in it."""
        one = self.pick(pools.VALUES, pools.WRONG_VALUES)
        return one if self.often(0.8) else one + self.pick(pools.VALUES, pools.WRONG_VALUES)

    def quoted(self) -> str:
        """A value, whose blanks are within quotes."""
        text = self.value()
        return f'"{text}"' if " " in text and '"' not in text and "'" not in text and "\\" not in text else text

    def name(self) -> str:
        """Of a variable."""
        return self.pick(pools.NAMES, pools.ODD_NAMES)

    def assigned(self, name: str) -> str:
        """`NAME=VALUE ...`, seldom in the old form."""
        if name != "ARG" and self.often(0.1):
            return f"{self.name()} {self.value() or 'x'}"
        return " ".join(f"{self.name()}={self.quoted()}" for _ in range(self.chance.choice((1, 1, 2, 3))))

    # The instructions.

    def arg(self) -> str:
        """ARG, some of those that builders define."""
        if self.often(0.3):
            return f"ARG {self.pick((*pools.NAMES, *pools.PREDEFINED))}"
        return "ARG " + self.assigned("ARG")

    def env(self) -> str:
        """ENV."""
        return "ENV " + self.assigned("ENV")

    def label(self) -> str:
        """LABEL, with keys that may be variables."""
        return f"LABEL {self.pick(pools.KEYS, ('k k', ''))}={self.quoted()}"

    def flags(self, adds: bool) -> str:
        """Flags of COPY or ADD."""
        made = []
        if self.often(0.3):
            made.append(f"--chown={self.pick(pools.OWNERS, pools.WRONG_OWNERS)}")
        if self.often(0.25):
            made.append(f"--chmod={self.pick(pools.MODES, pools.WRONG_MODES)}")
        if self.often(0.25):
            made.append(self.pick(("--link", "--link", "--link=false"), ("--link=x",)))
        if self.often(0.15):
            made.append(f"--exclude={self.pick(pools.EXCLUDED, ('', '[', '!x'))}")
        if not adds and self.often(0.2):
            made.append("--parents")
        if not adds and self.often(0.3):
            stages = [name for each, known in enumerate(self.stages) for name in (known, known.lower(), str(each))]
            made.append(f"--from={self.pick((*stages, 'base', 'plain'), ('9', 'nosuch', '$X', 's9', ''))}")
        if adds and self.often(0.2):
            made.append(self.pick(("--unpack", "--unpack=false", "--keep-git-dir"), ("--checksum=sha256:" + "0" * 64,)))
        return "".join(
            f"{each} " for each in (*made, *((self.pick(("--nosuch", "--chown")),) if self.often(0.005) else ()))
        )

    def source(self, inner: bool) -> str:
        """What is there, most of the time."""
        if inner:
            return self.pick(pools.INNER, ("/nosuch", "/keep/nosuch*", "/lnk/nosuch"))
        names = [each.name for each in self.files if " " not in each.name]
        above = [name.rpartition("/")[0] for name in names if "/" in name]
        forms = [name.rpartition("/")[0] + "/*" for name in names if "/" in name]
        forms += [f"./{name}" for name in names] + [f"/{name}" for name in names] + [f"{name[:1]}*" for name in names]
        forms += [f"{name}/" for name in above] + [name.replace("/", "/./", 1) for name in names if "/" in name]
        return self.pick((*names, *names, *above, *forms, *pools.ANYWHERE), pools.SOURCES)

    def here(self, name: str) -> str:
        """A COPY of a here-document or two."""
        mark = self.pick(("E", "'E'", '"E"', "-E"))
        second = "<<F " if self.often(0.2) else ""
        target = (
            self.pick(("/d/", "/d/deep/", "./"), ("here",))
            if second
            else self.pick(("/here", "/d/", "here", "/etc/passwd", "."))
        )
        return f"{name}<<{mark} {second}{target}\n{self.pick(pools.TEXTS)}E" + ("\nsecond\nF" if second else "")

    def copy(self) -> str:
        """COPY or ADD."""
        adds = self.often(0.3)
        name = ("ADD" if adds else "COPY") + " " + self.flags(adds)
        if self.often(0.12):
            return self.here(name)
        found = [self.source("--from=" in name) for _ in range(self.chance.choice((1, 1, 1, 1, 2, 3)))]
        target = self.pick(pools.TARGETS, pools.ODD_TARGETS)
        if len(found) > 1 and self.often(0.95):
            target = f"{target.rstrip('/')}/"
        if self.often(0.1) or " " in target:
            return name + "[" + ", ".join(f'"{each}"' for each in (*found, target)) + "]"
        return name + " ".join((*found, target))

    def workdir(self) -> str:
        """WORKDIR."""
        return f"WORKDIR {self.pick(pools.PATHS, ('', '/etc/passwd', '/dir', '/w/x'))}"

    def run(self) -> str:
        """RUN, of BusyBox's programs, where they are."""
        if self.base == "scratch" and self.often(0.97):
            return self.copy()
        mounts = "".join(
            f"--mount={self.pick(pools.MOUNTS, pools.WRONG_MOUNTS)} " for _ in range(self.chance.choice((0, 0, 1)))
        )
        flags = mounts + self.pick(
            ("", "", "", "--network=none "), ("--network=nosuch ", "--security=x ", "--device=x ")
        )
        command = self.pick(pools.COMMANDS, ("exit 3", "nosuch", ""))
        form = self.chance.random()
        if form < 0.1:
            return f"RUN {flags}<<E\n{command}\nE"
        return f'RUN {flags}["/bin/sh", "-c", "{command}"]' if form < 0.2 else f"RUN {flags}{command}"

    def rest(self) -> str:
        """An instruction that changes the config alone."""
        name = self.pick(
            ("USER", "EXPOSE", "VOLUME", "CMD", "ENTRYPOINT", "SHELL", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER")
        )
        return f"{name} {self.pick(*pools.OTHERS[name])}"

    def onbuild(self) -> str:
        """ONBUILD of something else, or of what it may not have."""
        inner = self.pick((self.arg(), self.copy().split("\n")[0], "ENV Q=$X", "WORKDIR /o", "RUN true", "CMD x"))
        return f"ONBUILD {self.pick((inner.partition('<<')[0],), ('FROM base', 'ONBUILD RUN x', 'MAINTAINER x', ''))}"

    def instruction(self) -> str:
        """Any of them."""
        kinds = (self.arg, self.env, self.copy, self.workdir, self.run, self.label, self.rest, self.onbuild)
        (kind,) = self.chance.choices(kinds, (14, 14, 36, 11, 6, 4, 10, 2))
        return self.pick((kind(),), ("NOSUCH x", "COPY", "FROM", "RUN", "ENV", "ENV A", "ARG", "COPY x", "LABEL"))

    def stage(self) -> list[str]:
        """The lines of one stage."""
        before = [name for name in self.stages if not name.isdecimal()]
        self.base = self.pick((*pools.BASES, *before, *before), pools.WRONG_BASES)
        number = len(self.stages)
        platform = (
            f"--platform={self.pick(pools.PLATFORMS, ('x/y/z/w', 'linux/$X', '', 'nosuch'))} "
            if self.often(0.15)
            else ""
        )
        name = self.pick((f"s{number}", f"s{number}", f"S{number}"), ("s0", "0bad", "a b")) if self.often(0.85) else ""
        lines = [f"FROM {platform}{self.base}" + (f" {self.pick(('AS', 'AS', 'as'))} {name}" if name else "")]
        if self.often(0.6):
            lines.append(self.pick(("ARG X=a.b", "ENV X=a.b", "ARG X", "ENV X=a Y=b", "ARG X Y=1")))
        lines += [self.instruction() for _ in range(self.chance.choice((1, 2, 3, 3, 4, 5)))]
        self.stages.append(name or str(number))
        return [self.recased(line) for line in lines]

    def recased(self, line: str) -> str:
        """The line as somebody else might write it: in small letters, over two lines, with a comment between."""
        name, blank, rest = line.partition(" ")
        if self.often(0.05):
            name = name.lower()
        if " " in rest and "<<" not in rest and '"' not in rest and "'" not in rest and self.often(0.06):
            one, _, other = rest.partition(" ")
            between = self.pick(("  ", "# between\n", "\n", ""))
            rest = f"{one} \\\n{between}{other}"
        return name + blank + rest

    def dockerfile(self) -> str:
        """All of it."""
        head = [self.arg() for _ in range(self.chance.choice((0, 0, 0, 1, 2)))] + ["ARG B=base"]
        if self.often(0.05):
            head.insert(
                0,
                self.pick(
                    ("# check=skip=all", "# nosuch=x", "#escape=\\"), ("# escape=`", "# check=error=true", "#escape=x")
                ),
            )
        stages = self.chance.choice((1, 1, 1, 2, 2, 3))
        return "\n".join([*head, *(line for _ in range(stages) for line in self.stage())]) + "\n"

    def options(self) -> dict[str, str]:
        """What a client says beside the Dockerfile."""
        made = {"build-arg:SOURCE_DATE_EPOCH": str(EPOCH)}
        for key, right, wrong, share in (
            ("build-arg:X", ("given", "", "a.b", "arm64"), (), 0.25),
            ("build-arg:Y", ("y", "$X"), (), 0.15),
            ("build-arg:B", ("base", "plain", "scratch"), ("",), 0.15),
            ("build-arg:TARGETARCH", ("mine",), (), 0.03),
            ("build-arg:HTTP_PROXY", ("http://proxy",), (), 0.03),
            ("build-arg:BUILDKIT_MULTI_PLATFORM", ("1",), (), 0.03),
            ("build-arg:nosuch", ("x",), (), 0.03),
            ("target", self.stages, ("S0", "0", "nosuch", ""), 0.15 if self.stages[1:] else 0.0),
            ("platform", pools.GIVEN, ("nosuch/x/y/z", "x"), 0.12),
            ("label:a", ("from the client",), (), 0.05),
            ("no-cache", ("", "s0"), (), 0.03),
            ("filename", ("Dockerfile",), ("nosuch",), 0.01),
            ("add-hosts", ("here=10.0.0.1",), (), 0.02),
        ):
            if self.often(share):
                made[key] = self.pick(right, wrong)
        return made

    def output(self) -> dict[str, str]:
        """Attributes of the exporter: most of the time such that the digests can be equal."""
        made = {"type": self.pick(("oci", "oci", "docker")), "rewrite-timestamp": "true"}
        kind = self.pick((*("uncompressed",) * 5, "gzip", "zstd", ""))
        if kind:
            made.update({"compression": kind, "force-compression": "true"})
        if self.often(0.1):
            made["rewrite-timestamp"] = "false"
        for key, value, share in pools.ATTRIBUTES:
            if self.often(share):
                made[key] = value
        return made


def case(chance: Random) -> Case:
    """One build."""
    drawing = Drawing(chance)
    text = drawing.dockerfile()
    return Case(text, drawing.files, drawing.options(), drawing.output())
