"""Attestations of a build's result, by the real CLI: where they are, what they say, and who reads them."""

import json
from pathlib import Path

import pytest

from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.clients.test_buildx_output import document, of
from tests.harness.registry import Registry

V1, V02 = "https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--provenance=mode=most", "invalid mode"),
        ("--provenance=mode=min,version=v9", "invalid provenance SLSA version"),
        ("--attest=type=provenance,mode=min,filename=../x", "invalid name of the provenance's file"),
        ("--sbom=true", "sbom"),
    ],
)
def test_what_cannot_be_is_refused(buildx: Building, options: str, words: str) -> None:
    buildx.write("RUN echo never")
    done = told(buildx("build", options, "."), 1)
    assert words in done, done
    assert "RUN echo never" not in done
