"""Attestations of a build's result, by the real CLI: where they are, what they say, and who reads them."""

import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.clients.test_buildx_output import document, of
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry

pytestmark = pytest.mark.seldom

DATA = Path(__file__).parents[1] / "data" / "provenance"
V1, V02 = "https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"
SPDX = "https://spdx.dev/Document"
# A generator of bills of materials, which lists files; or does what its parameter `do` says, in the place of that.
SCAN = r"""#!/bin/sh
set -e
bill() {
    files=$(cd "$2" && find . -type f | sort | awk '{ printf "%s{\"fileName\":\"%s\"}", (NR > 1 ? "," : ""), $0 }')
    printf '{"_type":"x","predicateType":"%s","predicate":{"name":"%s of %s for %s","files":[%s]}}' \
        https://spdx.dev/Document "${2#/run/src/}" "$(id -u)" "$BUILDKIT_SCAN_word" "$files" \
        > "$BUILDKIT_SCAN_DESTINATION/$1.spdx.json"
}
eval "$BUILDKIT_SCAN_do"
bill "$(basename "$BUILDKIT_SCAN_SOURCE")" "$BUILDKIT_SCAN_SOURCE"
if [ -n "$BUILDKIT_SCAN_SOURCE_EXTRAS" ]; then
    for place in "$BUILDKIT_SCAN_SOURCE_EXTRAS"*; do bill "$(basename "$place")" "$place"; done
fi
"""


@pytest.fixture(scope="module")
def generator(
    daemon: Daemon, busybox: str, registry: Registry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a generator's image, which is in the registry and not here."""
    name = f"{registry.address}/generator"
    made = building(daemon, tmp_path_factory.mktemp("generator"))
    (made.place / "scan").write_text(SCAN)
    made.write("COPY --chmod=755 scan /scan", 'ENTRYPOINT ["/bin/sh"]', 'CMD ["/scan"]', "USER 1000", "WORKDIR /tmp")
    told(made("build", "--provenance=false", "-o", f"type=image,name={name},push=true,store=false", "."))
    yield name
    made("rmi", "-f", name)


def attested(layout: Path) -> list[dict]:
    """The statements about the image of an OCI layout, whose index has one image."""
    index = json.loads((layout / "index.json").read_bytes())
    whole = document(layout, index["manifests"][-1]["digest"])
    image, attestation = whole["manifests"]
    assert attestation["platform"] == {"architecture": "unknown", "os": "unknown"}
    assert attestation["annotations"] == {
        "vnd.docker.reference.digest": image["digest"],
        "vnd.docker.reference.type": "attestation-manifest",
    }
    manifest = document(layout, attestation["digest"])
    config = document(layout, manifest["config"]["digest"])
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    statements = [document(layout, layer["digest"]) for layer in manifest["layers"]]
    for layer, statement in zip(manifest["layers"], statements, strict=True):
        assert layer["mediaType"] == "application/vnd.in-toto+json"
        assert layer["annotations"]["in-toto.io/predicate-type"] == statement["predicateType"]
        for subject in statement["subject"]:
            assert f"sha256:{subject['digest']['sha256']}" == image["digest"]
    return statements


def output(layout: Path, tag: str) -> tuple[str, str]:
    return "-o", f"type=oci,dest={layout},tar=false,name={tag}"


def test_the_usual_provenance_stands_in_the_index(
    buildx: Building, docker: Client, registry: Registry, tag: str, tmp_path: Path
) -> None:
    """Without a word of the client; the image runs, is pushed, pulled and removed as a whole."""
    name = f"{registry.address}/{tag}"
    buildx.write("RUN echo x > /f", 'CMD ["cat", "/f"]')
    told(buildx("build", "-t", name, "--push", "."))
    index = of(registry, tag, "latest")
    assert [each["platform"]["os"] for each in index["manifests"]] == ["linux", "unknown"]
    assert said(docker("run", "--rm", name)) == "x\n"
    said(docker("save", "-o", str(tmp_path / "saved"), name))
    said(docker("rmi", name))
    said(docker("load", "-i", str(tmp_path / "saved")))
    said(docker("rmi", name))
    assert said(docker("run", "--rm", name)).endswith("x\n")
    docker("rmi", "-f", name)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_provenance(buildx: Building, tag: str, tmp_path: Path, mode: str) -> None:
    buildx.write("ARG word", "COPY Dockerfile /")
    options = (
        "--build-arg",
        "word=hidden",
        "--label",
        "l=v",
        f"--provenance=mode={mode},builder-id=https://me.example",
    )
    told(buildx("build", *options, *output(tmp_path / "l", tag), "."))
    (statement,) = attested(tmp_path / "l")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == V1
    assert statement["subject"][0]["name"].startswith(f"pkg:docker/{tag}@latest?platform=linux%2F")
    definition, run = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    request = definition["externalParameters"]["request"]
    assert definition["externalParameters"]["configSource"] == {"path": "Dockerfile"}
    assert request["frontend"] == "dockerfile.v0"
    assert request["locals"] == [{"name": "context"}, {"name": "dockerfile"}]
    assert ("hidden" in json.dumps(statement)) == (mode == "max")
    assert request.get("args", {}) == ({"build-arg:word": "hidden", "label:l": "v"} if mode == "max" else {})
    assert run["builder"] == {"id": "https://me.example"}
    complete = {"request": mode == "max", "resolvedDependencies": False}
    assert run["metadata"]["buildkit_completeness"] == complete
    assert run["metadata"]["startedOn"] < run["metadata"]["finishedOn"]
    assert ("source" in run["metadata"]["buildkit_metadata"]) == (mode == "max")


def test_the_graph_is_as_the_real_daemon_writes_it(buildx: Building, tmp_path: Path) -> None:
    """Step by step, beside what buildkitd 0.34.2 wrote of the same Dockerfile; what differs is named here."""
    shutil.copy(shutil.which("busybox") or "", buildx.place / "busybox")
    shutil.copy(DATA / "Dockerfile", buildx.place)
    told(buildx("build", "--provenance=mode=max", "-o", str(tmp_path), "."))
    ours = json.loads((tmp_path / "provenance.json").read_bytes())["predicate"]
    theirs = json.loads((DATA / "buildkitd-0.34.2.json").read_bytes())

    def graph(made: dict) -> tuple[list[dict], set[str]]:
        config = made["buildDefinition"]["internalParameters"]["buildConfig"]
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in config["digestMapping"])
        for step in config["llbDefinition"]:
            if "exec" in step["op"]["Op"]:
                step["op"]["Op"]["exec"]["meta"]["env"].sort()
                step["op"].pop("platform")
        return config["llbDefinition"], set(config["digestMapping"].values())

    def keys(value: object) -> object:
        return {key: keys(each) for key, each in value.items()} if isinstance(value, dict) else type(value)

    assert graph(ours) == graph(theirs)
    source = [made["runDetails"]["metadata"]["buildkit_metadata"]["source"] for made in (ours, theirs)]
    assert source[0]["locations"] == source[1]["locations"]
    mapped = [made["infos"][0].pop("digestMapping").values() for made in source]
    assert sorted(mapped[0]) == sorted(mapped[1])
    assert source[0]["infos"] == source[1]["infos"]
    del theirs["buildDefinition"]["externalParameters"]["request"]["compatibilityVersion"]  # BuildKit's own version
    del theirs["buildDefinition"]["internalParameters"]["dockerfileVersion"]  # of BuildKit's frontend
    del ours["buildDefinition"]["externalParameters"]["configSource"][
        "path"
    ]  # which buildx names, and buildctl does not
    for made in (ours, theirs):
        made["buildDefinition"]["internalParameters"]["buildConfig"]["digestMapping"].clear()
    ours["buildDefinition"].setdefault("resolvedDependencies", [])
    theirs["buildDefinition"].setdefault("resolvedDependencies", [])  # left out where there are none
    assert keys(ours) == keys(theirs)


def test_images_are_materials(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    """Each with its digest, also one that is only copied from; with them and nothing else the list is complete."""
    buildx.write("RUN true", "FROM scratch", "COPY --from=busybox /etc/passwd /p")
    lines = (buildx.place / "Dockerfile").read_text()
    told(buildx("build", *output(tmp_path / "l", tag), "--provenance=mode=max", "-", input=lines.encode()))
    (statement,) = attested(tmp_path / "l")
    (used,) = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    id = said(docker("inspect", "-f", "{{.Id}}", "busybox")).strip()
    assert used["uri"].startswith("pkg:docker/busybox@latest?platform=linux%2F")
    assert f"sha256:{used['digest']['sha256']}" == id


def test_the_older_form(buildx: Building, tag: str, tmp_path: Path) -> None:
    buildx.write("RUN true")
    told(buildx("build", "--provenance=mode=max,version=v0.2", *output(tmp_path / "l", tag), "."))
    (statement,) = attested(tmp_path / "l")
    assert statement["predicateType"] == V02
    made = statement["predicate"]
    assert made["buildType"] == "https://mobyproject.org/buildkit@v1"
    assert made["invocation"]["configSource"] == {"entryPoint": "Dockerfile"}
    assert made["metadata"]["completeness"] == {"parameters": True, "environment": True, "materials": False}


def test_none_is_asked_for(buildx: Building, tag: str, tmp_path: Path) -> None:
    buildx.write("RUN true")
    told(buildx("build", "--provenance=false", *output(tmp_path / "l", tag), "."))
    index = json.loads((tmp_path / "l" / "index.json").read_bytes())
    assert "layers" in document(tmp_path / "l", index["manifests"][-1]["digest"])


def test_beside_files(buildx: Building, tmp_path: Path) -> None:
    """A statement about each of the files, in the directory and in the archive; the usual one is for images alone."""
    buildx.write("FROM scratch", "COPY --from=0 /etc/passwd /a/p")
    told(buildx("build", "--provenance=mode=max", "-o", str(tmp_path / "with"), "."))
    told(buildx("build", "-o", str(tmp_path / "without"), "."))
    assert not (tmp_path / "without" / "provenance.json").exists()
    statement = json.loads((tmp_path / "with" / "provenance.json").read_bytes())
    assert [each["name"] for each in statement["subject"]] == ["a/p"]


def test_the_file_of_metadata_shows_it(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    buildx.write("RUN true")
    for mode, wanted in (("min", False), ("max", True)):
        buildx.environment["BUILDX_METADATA_PROVENANCE"] = mode
        told(buildx("build", "-t", tag, "--metadata-file", str(tmp_path / mode), "."))
        shown = json.loads((tmp_path / mode).read_text())["buildx.build.provenance"]
        text = json.dumps(shown)
        assert "Dockerfile" in text
        assert ("infos" in text) == wanted


def test_a_bill_of_materials_goes_with_an_image(buildx: Building, generator: str, tag: str, tmp_path: Path) -> None:
    """It stands before the provenance, and says in which layer each file is; its generator is a material."""
    buildx.write("RUN echo 1 > /one", "FROM scratch", "COPY --from=0 /one /a/one", "COPY Dockerfile /")
    options = (f"--attest=type=sbom,generator={generator},word=hello", "--provenance=mode=max")
    shown = told(buildx("build", *options, *output(tmp_path / "l", tag), "."))
    assert re.search(rf"\[linux/\w+\] generating sbom using {generator}:latest\n", shown), shown
    bill, provenance = attested(tmp_path / "l")
    assert (bill["predicateType"], provenance["predicateType"]) == (SPDX, V1)
    assert bill["_type"] == "https://in-toto.io/Statement/v1"
    assert bill["subject"] == provenance["subject"]
    assert bill["predicate"]["name"] == "core/sbom of 0 for hello"
    image = document(tmp_path / "l", f"sha256:{bill['subject'][0]['digest']['sha256']}")
    one, two = (layer["digest"] for layer in image["layers"])
    assert bill["predicate"]["files"] == [
        {"fileName": "./Dockerfile", "comment": f"layerID: {two}"},
        {"fileName": "./a/one", "comment": f"layerID: {one}"},
    ]
    used = [each["uri"] for each in provenance["predicate"]["buildDefinition"]["resolvedDependencies"]]
    assert any(f"pkg:docker/{generator}@latest" in each for each in used), used
    again = told(buildx("build", *options, *output(tmp_path / "m", tag), "."))
    assert re.search(r"^#(\d+) \[\S+\] generating sbom.*\n#\1 CACHED$", again, re.MULTILINE), again
    anew = told(buildx("build", "--no-cache", *options, *output(tmp_path / "n", tag), "."))
    assert not re.search(r"^#(\d+) \[\S+\] generating sbom.*\n#\1 CACHED$", anew, re.MULTILINE), anew


def test_an_image_with_a_bill_is_pushed_and_runs(
    buildx: Building, docker: Client, generator: str, registry: Registry, tag: str
) -> None:
    name = f"{registry.address}/{tag}"
    buildx.write('CMD ["echo", "runs"]')
    told(buildx("build", "-t", name, f"--sbom=generator={generator}", "--push", "."))
    index = of(registry, tag, "latest")
    manifest = of(registry, tag, index["manifests"][1]["digest"])
    kinds = [layer["annotations"]["in-toto.io/predicate-type"] for layer in manifest["layers"]]
    assert kinds == [SPDX, V1]
    assert said(docker("run", "--rm", name)) == "runs\n"
    docker("rmi", "-f", name)


def test_a_bill_is_a_file_beside_files(buildx: Building, generator: str, tmp_path: Path) -> None:
    """It is about each of them; what is for images alone, such as in which layer they are, it does not say."""
    buildx.write("FROM scratch", "COPY Dockerfile /a/")
    sbom = f"--sbom=generator={generator}"
    told(buildx("build", sbom, "-o", str(tmp_path / "out"), "."))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "sbom.spdx.json"]
    bill = json.loads((tmp_path / "out" / "sbom.spdx.json").read_bytes())
    assert [each["name"] for each in bill["subject"]] == ["a/Dockerfile"]
    assert bill["predicate"]["files"] == [{"fileName": "./a/Dockerfile"}]
    told(buildx("build", sbom, "-o", f"type=tar,dest={tmp_path}/tar", "."))
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "tar").read_bytes())) as archive:
        assert sorted(archive.getnames()) == ["a", "a/Dockerfile", "sbom.spdx.json"]


def test_a_bill_may_be_about_stages_and_the_context(buildx: Building, generator: str, tag: str, tmp_path: Path) -> None:
    (buildx.place / "left").write_text("not copied")
    (buildx.place / "out").write_text("left out")
    (buildx.place / ".dockerignore").write_text("out\n")
    (buildx.place / "Dockerfile").write_text(
        "ARG BUILDKIT_SBOM_SCAN_STAGE=base,never\nFROM scratch AS base\nCOPY Dockerfile /f\n"
        "FROM scratch AS never\nCOPY left /\nFROM base\nARG BUILDKIT_SBOM_SCAN_CONTEXT=true\nCOPY --from=base f g\n"
    )
    told(buildx("build", f"--sbom=generator={generator}", "--provenance=false", *output(tmp_path / "l", tag), "."))
    found = {
        each["predicate"]["name"].partition(" ")[0]: [file["fileName"] for file in each["predicate"]["files"]]
        for each in attested(tmp_path / "l")
    }
    assert found == {
        "core/sbom": ["./f", "./g"],
        "extras/sbom-base": ["./f"],
        "extras/sbom-context": ["./.dockerignore", "./Dockerfile", "./left"],
    }


def test_each_platform_has_a_bill_of_its_own(buildx: Building, generator: str, tag: str, tmp_path: Path) -> None:
    (buildx.place / "Dockerfile").write_text("FROM scratch\nARG TARGETARCH\nCOPY Dockerfile /$TARGETARCH\n")
    options = ("--platform", "linux/amd64,linux/arm64", f"--sbom=generator={generator}", "--provenance=false")
    told(buildx("build", *options, *output(tmp_path / "l", tag), "."))
    index = json.loads((tmp_path / "l" / "index.json").read_bytes())
    whole = document(tmp_path / "l", index["manifests"][-1]["digest"])["manifests"]
    assert [each["platform"]["architecture"] for each in whole] == ["amd64", "arm64", "unknown", "unknown"]
    for image, attestation in zip(whole[:2], whole[2:], strict=True):
        assert attestation["annotations"]["vnd.docker.reference.digest"] == image["digest"]
        (layer,) = document(tmp_path / "l", attestation["digest"])["layers"]
        (file,) = document(tmp_path / "l", layer["digest"])["predicate"]["files"]
        assert file["fileName"] == f"./{image['platform']['architecture']}"
    told(buildx("build", *options, "-o", f"type=local,dest={tmp_path}/out,platform-split=false", "."))
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == ["amd64", "arm64", "sbom.spdx.linux_amd64.json", "sbom.spdx.linux_arm64.json"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("echo spoiled >&2; exit 7", "did not complete successfully: exit code: 7"),
        ("touch $BUILDKIT_SCAN_SOURCE/x", "did not complete successfully: exit code: 1"),
        ("ln -s /etc/passwd $BUILDKIT_SCAN_DESTINATION/x", "open x: no such file or directory"),
        ("mkfifo $BUILDKIT_SCAN_DESTINATION/x", "not a regular file"),
        ("head -c 20000000 /dev/zero > $BUILDKIT_SCAN_DESTINATION/x", "exceeds maximum allowed size"),
        ("echo {} > $BUILDKIT_SCAN_DESTINATION/x", "does not match required predicate type"),
        ("seq 101 | while read n; do touch $BUILDKIT_SCAN_DESTINATION/$n; done", "more than 100 files"),
    ],
)
def test_a_generator_that_fails_or_spoils_fails_the_build(
    buildx: Building, generator: str, tag: str, what: str, words: str
) -> None:
    buildx.write("RUN true")
    done = told(buildx("build", "-t", tag, f'--sbom=generator={generator},"do={what}"', "."), 1)
    assert words in done, done
    assert buildx("inspect", tag).returncode == 1, "and there is no image"


def test_a_generator_that_is_not_there(buildx: Building, registry: Registry) -> None:
    buildx.write("RUN true")
    done = told(buildx("build", f"--sbom=generator={registry.address}/absent", "."), 1)
    assert re.search(rf"ERROR: .*{registry.address}/absent.*not found", done), done


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--provenance=mode=most", "invalid mode"),
        ("--provenance=mode=min,version=v9", "invalid provenance SLSA version"),
        ("--attest=type=provenance,mode=min,filename=../x", "invalid name of the provenance's file"),
        ("--sbom=generator=A", "failed to parse sbom generator A"),
        ("--attest=type=made-up", 'unknown attestation type "made-up"'),
    ],
)
def test_what_cannot_be_is_refused(buildx: Building, options: str, words: str) -> None:
    buildx.write("RUN echo never")
    done = told(buildx("build", options, "."), 1)
    assert words in done, done
    assert "RUN echo never" not in done
