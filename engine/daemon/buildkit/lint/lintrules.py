"""The rules of BuildKit's checks: one table with each rule's name, its words, its page, and the function that finds it.

Pure. The words are those that BuildKit tells clients, who compare them. Names and pages: buildkit,
frontend/dockerfile/linter/ruleset.go.
"""

from collections.abc import Callable, Iterable, Iterator

from engine.daemon.buildkit.lint import fileforms, stageforms
from engine.daemon.buildkit.lint.checkoptions import CheckOptions
from engine.daemon.buildkit.lint.marks import Mark
from engine.daemon.buildkit.lint.review import Review
from engine.dataclass import dataclass

_PAGES = "https://docs.docker.com/go/dockerfile/rule/"
_MOST_WARNINGS = 1000
"""Of one file: a longer list tells a reader nothing more."""

_DESCRIPTION = (
    "Comment for build stage or argument should follow the format: `# <arg/stage name> <description>`. If this is not"
    " intended to be a description comment, add an empty line or comment between the instruction and the comment."
)
_WORKDIR = (
    "Relative workdir without an absolute workdir declared within the build can have unexpected results if the base"
    " image changes"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. page: its part of the address of its page, empty for none

    look: the marks that a review bears; local: a comment above an instruction can switch it off there
    """

    name: str
    page: str
    description: str
    look: Callable[[Review], Iterable[Mark]]
    local: bool = False
    experimental: bool = False

    @property
    def url(self) -> str:
        """The address of its page, empty for none."""
        return self.page and f"{_PAGES}{self.page}/"


@dataclass(frozen=True, slots=True)
class Warned:
    """A rule that is broken. detail: how; first, last: the lines where"""

    rule: Rule
    detail: str
    first: int
    last: int

    @property
    def short(self) -> str:
        """All in one line, as the CLI shows it after a build."""
        return f"{self.rule.name}: {self.detail} (line {self.first})"


def warnings(review: Review, options: CheckOptions) -> list[Warned]:
    """What the rules that are checked have found, in the table's order, up to a limit."""
    found: list[Warned] = []
    for warned in _every(review, options):
        found.append(warned)
        if len(found) == _MOST_WARNINGS:
            break
    return found


def _every(review: Review, options: CheckOptions) -> Iterator[Warned]:
    for rule in TABLE:
        for mark in rule.look(review):
            own = options.beside(mark.instruction.comments) if rule.local else options
            if own.checks(rule.name, rule.experimental):
                lines = (mark.line, mark.line) if mark.line else (mark.instruction.line, mark.instruction.last_line)
                yield Warned(rule, mark.detail, *lines)


TABLE = (
    Rule(
        "NoEmptyContinuation",
        "no-empty-continuation",
        "Empty continuation lines will become errors in a future release",
        fileforms.gaps,
    ),
    Rule("StageNameCasing", "stage-name-casing", "Stage names should be lowercase", fileforms.stage_casing, True),
    Rule(
        "FromAsCasing",
        "from-as-casing",
        "The 'as' keyword should match the case of the 'from' keyword",
        fileforms.as_casing,
        True,
    ),
    Rule(
        "MaintainerDeprecated",
        "maintainer-deprecated",
        "The MAINTAINER instruction is deprecated, use a label instead to define an image author",
        fileforms.maintainers,
        True,
    ),
    Rule(
        "InvalidDefinitionDescription",
        "invalid-definition-description",
        _DESCRIPTION,
        fileforms.descriptions,
        True,
        True,
    ),
    Rule(
        "ReservedStageName",
        "reserved-stage-name",
        "Reserved words should not be used as stage names",
        fileforms.reserved,
    ),
    Rule("DuplicateStageName", "duplicate-stage-name", "Stage names should be unique", fileforms.duplicates),
    Rule(
        "ConsistentInstructionCasing",
        "consistent-instruction-casing",
        "All commands within the Dockerfile should use the same casing (either upper or lower)",
        fileforms.casing,
    ),
    Rule(
        "InvalidDefaultArgInFrom",
        "invalid-default-arg-in-from",
        "Default value for global ARG results in an empty or invalid base image name",
        stageforms.defaults,
    ),
    Rule(
        "UndefinedArgInFrom",
        "undefined-arg-in-from",
        "FROM command must use declared ARGs",
        stageforms.undefined_in_from,
        True,
    ),
    Rule(
        "RedundantTargetPlatform",
        "redundant-target-platform",
        "Setting platform to predefined $TARGETPLATFORM in FROM is redundant as this is the default behavior",
        stageforms.redundant_platforms,
        True,
    ),
    Rule(
        "FromPlatformFlagConstDisallowed",
        "from-platform-flag-const-disallowed",
        "FROM --platform flag should not use a constant value",
        stageforms.constant_platforms,
        True,
    ),
    Rule(
        "InvalidBaseImagePlatform",
        "",
        "Base image platform does not match expected target platform",
        stageforms.other_platforms,
    ),
    Rule("UndefinedVar", "undefined-var", "Variables should be defined before their use", stageforms.undefined, True),
    Rule("WorkdirRelativePath", "workdir-relative-path", _WORKDIR, stageforms.relative_workdirs, True),
    Rule(
        "JSONArgsRecommended",
        "json-args-recommended",
        "JSON arguments recommended for ENTRYPOINT/CMD to prevent unintended behavior related to OS signals",
        stageforms.shell_forms,
        True,
    ),
    Rule(
        "MultipleInstructionsDisallowed",
        "multiple-instructions-disallowed",
        "Multiple instructions of the same type should not be used in the same stage",
        stageforms.replaced,
        True,
    ),
    Rule(
        "LegacyKeyValueFormat",
        "legacy-key-value-format",
        "Legacy key/value format with whitespace separator should not be used",
        stageforms.spaced_pairs,
        True,
    ),
    Rule(
        "SecretsUsedInArgOrEnv",
        "secrets-used-in-arg-or-env",
        "Sensitive data should not be used in the ARG or ENV commands",
        stageforms.secrets,
        True,
    ),
    Rule(
        "CopyIgnoredFile",
        "copy-ignored-file",
        "Attempting to Copy file that is excluded by .dockerignore",
        stageforms.ignored,
        True,
    ),
    Rule(
        "ExposeProtoCasing",
        "expose-proto-casing",
        "Protocol in EXPOSE instruction should be lowercase",
        stageforms.protocol_casing,
        True,
    ),
    Rule(
        "ExposeInvalidFormat",
        "expose-invalid-format",
        "IP address and host-port mapping should not be used in EXPOSE instruction. This will become an error in a"
        " future release",
        stageforms.port_mappings,
        True,
    ),
)
"""All rules."""
