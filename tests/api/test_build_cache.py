"""The cache of POST /build: what it is keyed on, whom it trusts, and how it goes."""

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import threading
import time

from tests.api import building
from tests.api.building import build, history, images, inspect, unique
from tests.harness.daemon import Daemon
from tests.harness.http import Answer


def prune(builder: Daemon, query: str = "") -> dict:
    """POST /build/prune"""
    answer: Answer = builder.request("POST", f"/build/prune{query}")
    assert answer.status == 200, answer
    return answer.json()


def test_an_unchanged_context_runs_nothing_and_gives_the_same_image(builder: Daemon) -> None:
    word = unique()
    files = {"Dockerfile": f"FROM busybox\nRUN echo {word}\nCOPY x /\nWORKDIR /w\nENV A=b\n", "x": "1"}
    first = build(builder, files, t="cached:1")
    before = images(builder)
    second = build(builder, files, t="cached:2")
    assert second.image == first.image and (second.cached, second.ran) == (4, 0) and images(builder) == before
    assert inspect(builder, "cached:2")["RepoTags"] == ["cached:1", "cached:2"]


def test_times_and_owners_of_the_uploaded_do_not_matter_and_all_else_does(builder: Daemon) -> None:
    word = unique()

    def upload(**more: object) -> building.Built:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, content in (("Dockerfile", f"FROM busybox\nCOPY d /d\nLABEL l={word}\n"), ("d/f", "content")):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(content), time.time_ns() % 1_000_000, 0o644
                for key, value in more.items():
                    if name == "d/f" and key != "content":
                        setattr(entry, key, value)
                data = more.get("content", content) if name == "d/f" else content
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data.encode()))
        return building.Built(builder.request("POST", building.request_target({}), buffer.getvalue(), building.TAR))

    first = upload()
    assert upload().image == first.image and upload(uid=7, gid=8).image == first.image
    assert upload(mode=0o755).image != first.image
    assert upload(content="changed").image != first.image
    assert upload(name="d/other").image != first.image
    assert upload().image == first.image


def test_what_a_command_sees_decides(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"FROM busybox\nARG A\nRUN echo {word} $A\n"
    assert build(builder, dockerfile, buildargs={"A": "1"}).ran == 1
    assert build(builder, dockerfile, buildargs={"A": "1"}).ran == 0
    assert build(builder, dockerfile, buildargs={"A": "2"}).ran == 1
    assert build(builder, dockerfile, buildargs={"A": "1"}, extrahosts="a:1.2.3.4").ran == 1
    assert build(builder, dockerfile, buildargs={"A": "1"}).ran == 0
    assert build(builder, dockerfile, buildargs={"A": "1", "HTTP_PROXY": "p"}).ran == 0


def test_a_changed_mount_of_the_context_decides(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"FROM busybox\nRUN --mount=source=f,target=/f cat /f; : {word}\n"
    for content, ran in (("1", 1), ("1", 0), ("2", 1), ("1", 0)):
        assert build(builder, {"Dockerfile": dockerfile, "f": content}).ran == ran


def test_nocache_runs_all_and_is_remembered(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nRUN echo {unique()}\nENV A=b\n"
    first = build(builder, dockerfile).image
    second = build(builder, dockerfile, nocache=1)
    assert (second.cached, second.ran) == (0, 1) and second.image != first
    assert build(builder, dockerfile).image == second.image


def test_the_cache_outlives_the_daemon_and_goes_with_its_images(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nRUN echo {unique()}\nLABEL a=b\n"
    first = build(builder, dockerfile, t="outlives")
    builder.restart()
    assert build(builder, dockerfile).image == first.image
    builder.kill9()
    builder.start()
    assert build(builder, dockerfile).cached == 2
    builder.request("DELETE", "/images/outlives")
    assert build(builder, dockerfile).ran == 1


def forged(builder: Daemon, name: str, created_by: str) -> str:
    """Load an image that stands on the very base, and says of itself that it is what a build would have made of it.

    (CVE-2024-24557: the classic builder believed that.) Its last layer and its config are the attacker's.
    """
    with tarfile.open(fileobj=io.BytesIO(builder.request("GET", "/images/busybox/get").body)) as tar:
        saved = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    manifest = json.loads(saved["manifest.json"])[0]
    config = json.loads(saved[manifest["Config"]])
    evil = building.context({"evil": "1"})
    config["config"]["Healthcheck"] = {"Test": ["CMD-SHELL", "evil"]}
    config["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(evil).hexdigest()}")
    config["history"].append({"created": "2026-01-01T00:00:00Z", "created_by": created_by})
    base = saved[manifest["Layers"][0]]
    document = json.dumps(config).encode()
    told = [{"Config": "config.json", "RepoTags": [name], "Layers": ["base.tar", "evil.tar"]}]
    files = {"config.json": document, "base.tar": base, "evil.tar": evil, "manifest.json": json.dumps(told).encode()}
    answer = builder.request("POST", "/images/load", building.context(files), building.TAR)
    assert "error" not in answer.lines[-1], answer
    return inspect(builder, name)["Id"]


def test_an_image_with_a_forged_history_is_not_used(builder: Daemon) -> None:
    """CVE-2024-24557: whoever made an image has written its history, so it proves nothing."""
    word = unique()
    evil = forged(builder, "evil:1", f"/bin/sh -c ls /evil; : {word}")
    made = build(builder, f"FROM busybox\nRUN ls /evil; : {word}\n")
    assert (made.cached, made.ran) == (0, 1) and "No such file" in made.text
    assert inspect(builder, made.image)["RootFS"]["Layers"] == inspect(builder, "busybox")["RootFS"]["Layers"]
    times = "Interval:0s Timeout:0s StartPeriod:0s StartInterval:0s"
    health = f"/bin/sh -c #(nop)  HEALTHCHECK &{{Test:[CMD-SHELL {word}] {times} Retries:0}}"
    other = forged(builder, "evil:2", health)
    made = build(builder, f"FROM busybox\nHEALTHCHECK CMD {word}\n")
    assert made.cached == 0 and history(builder, made.image)[0] == health
    assert made.image not in (evil, other)


def test_an_image_that_the_client_trusts_serves_for_that_build_alone(builder: Daemon) -> None:
    """cachefrom: the history of an image counts, when it goes on from the very base."""
    word = unique()
    dockerfile = f"FROM busybox\nRUN echo {word} >/made\nENV A={word}\nRUN cat /made\n"
    build(builder, dockerfile, t="shared:1")
    layers = inspect(builder, "shared:1")["RootFS"]["Layers"]
    prune(builder, "?all=1")
    trusted = build(builder, dockerfile, cachefrom='["nope:1", "shared:1"]')
    assert (trusted.cached, trusted.ran) == (3, 0), trusted.text
    assert inspect(builder, trusted.image)["RootFS"]["Layers"] == layers
    assert build(builder, dockerfile).ran == 2  # nothing of that is remembered


def test_who_names_images_to_trust_wants_no_other_cache(builder: Daemon) -> None:
    """Not the daemon's own, where no such image exists or none of them has the step."""
    word = unique()
    dockerfile = f"FROM busybox\nENV A={word}\nRUN echo {word} >/made\n"
    first = build(builder, dockerfile, t="mine:1")
    again = build(builder, dockerfile, cachefrom='["mine:1"]')
    assert (again.cached, again.image) == (2, first.image), again.text
    for sources in ('["nope:1"]', '["busybox"]'):
        made = build(builder, dockerfile, cachefrom=sources)
        assert (made.cached, made.ran) == (0, 1) and made.image != first.image, made.text
    more = build(builder, f"{dockerfile}RUN echo more {word}\n", cachefrom='["nope:1", "mine:1"]')
    assert (more.cached, more.ran) == (2, 1), more.text
    assert build(builder, dockerfile, cachefrom="[]").cached == 2


def test_a_trusted_image_lends_its_layer_and_not_its_config(builder: Daemon) -> None:
    word = unique()
    evil = forged(builder, "lender:1", f"/bin/sh -c true {word}")
    made = build(builder, f"FROM busybox\nRUN true {word}\n", cachefrom='["lender:1"]')
    shown = inspect(builder, made.image)
    assert made.cached == 1 and shown["RootFS"]["Layers"] == inspect(builder, "lender:1")["RootFS"]["Layers"]
    assert "Healthcheck" not in shown["Config"] and made.image != evil
    elsewhere = build(builder, f"FROM busybox\nLABEL a=b\nRUN true {word}\n", cachefrom='["lender:1"]')
    assert elsewhere.ran == 1


def test_two_builds_that_want_no_cache_share_nothing_at_once_either(builder: Daemon) -> None:
    """Each has an image of its own, and with rm=0 a step's container of its own."""
    dockerfile = f"FROM busybox\nRUN echo {unique()} >/f; sleep 0.5\n"
    found: list[building.Built] = []
    builds = [
        threading.Thread(target=lambda: found.append(build(builder, dockerfile, rm=0, nocache=1))) for _ in range(2)
    ]
    for each in builds:
        each.start()
    for each in builds:
        each.join(60)
    left = building.containers(builder)
    for each in left:
        builder.remove(each)
    assert len(left) == 2 and len({made.image for made in found}) == 2
    assert [made.ran for made in found] == [1, 1]


def test_two_builds_of_the_same_at_once(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nRUN echo {unique()} >/f; sleep 0.1\nLABEL a=b\n"
    found: list[building.Built] = []
    threads = [threading.Thread(target=lambda: found.append(build(builder, dockerfile, t="atonce"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(inspect(builder, made.image) for made in found)
    assert inspect(builder, "atonce")["Id"] in {made.image for made in found}
    assert build(builder, dockerfile).cached == 2 and building.containers(builder) == []


def test_a_pruning_of_images_takes_nothing_from_a_running_build(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nLABEL a={unique()}\nRUN sleep 0.3\nLABEL c=d\n"
    found: list[building.Built] = []
    thread = threading.Thread(target=lambda: found.append(build(builder, dockerfile, t="kept")))
    thread.start()
    while thread.is_alive():
        assert builder.request("POST", "/images/prune").status == 200
        time.sleep(0.02)
    thread.join()
    assert inspect(builder, found[0].image)


def test_a_locked_cache_is_one_steps_at_a_time_and_a_private_one_its_own(builder: Daemon) -> None:
    step = (
        "FROM busybox\nRUN --mount=type=cache,id={},sharing={},target=/c --mount=type=cache,id={},target=/met"
        " test ! -e /c/here && touch /c/here /met/{} && {} && rm /c/here && echo >>/c/n && wc -l </c/n\n"
    )
    assert at_once(builder, step, "locked", "sleep 0.2") == {"1", "2", "3"}
    everybody = "until [ $(ls /met | wc -l) = 3 ]; do sleep 0.02; done"
    assert at_once(builder, step, "private", f"{{ {everybody}; }}") == {"1"}


def at_once(builder: Daemon, step: str, sharing: str, meanwhile: str) -> set[str]:
    """What the same step says in three builds at once; meanwhile: what each does while the cache is in its hands."""
    name, found = unique(), []

    def one(number: int) -> None:
        found.append(build(builder, step.format(name, sharing, f"{name}-met", number, meanwhile)))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [made.error for made in found] == [""] * 3, [made.text for made in found]
    return {made.output[0] for made in found}


def test_pruning_lets_go_of_steps_and_of_cache_directories(builder: Daemon) -> None:
    prune(builder, "?all=1")
    assert prune(builder) == {"CachesDeleted": None, "SpaceReclaimed": 0}
    dockerfile = f"FROM busybox\nRUN --mount=type=cache,target=/c head -c 1m /dev/zero >/c/{unique()}\n"
    named = f"FROM busybox\nRUN echo {unique()}\n"
    build(builder, dockerfile)
    build(builder, named, t="named")
    since = time.time()
    found = prune(builder)
    assert len(found["CachesDeleted"]) == 2 and found["SpaceReclaimed"] >= 1 << 20
    told = builder.request("GET", f"/events?since={since:.9f}&until={time.time():.9f}").lines[-1]
    assert (told["Type"], told["Action"]) == ("builder", "prune")
    assert told["Actor"]["Attributes"] == {"reclaimed": str(found["SpaceReclaimed"])}
    assert build(builder, named).ran == 0  # what stands under a name is kept
    assert len(prune(builder, "?all=1")["CachesDeleted"]) == 1
    assert build(builder, named).ran == 1
    assert inspect(builder, "named")


def test_pruning_by_age_kind_and_space(builder: Daemon) -> None:
    prune(builder, "?all=1")
    for size in (1, 2):
        step = f"RUN --mount=type=cache,id=size{size},target=/c head -c {size}m /dev/zero >/c/{unique()}"
        build(builder, f"FROM busybox\n{step}\n")

    def by(**filters: str) -> str:
        return f"?filters={json.dumps({name.replace('_', '-'): [value] for name, value in filters.items()})}".replace(
            " ", ""
        )

    assert prune(builder, by(until="1h"))["CachesDeleted"] is None
    assert prune(builder, by(type="nothing"))["CachesDeleted"] is None
    assert prune(builder, by(id="0"))["CachesDeleted"] is None
    assert len(prune(builder, by(type="regular"))["CachesDeleted"]) == 2
    assert prune(builder, f"?max-used-space={64 << 20}")["CachesDeleted"] is None
    # The one that was used first goes, until what is left is no more than that.
    found = prune(builder, f"?reserved-space={2200 << 10}")
    assert len(found["CachesDeleted"]) == 1 and 1 << 20 <= found["SpaceReclaimed"] < 2 << 20
    assert len(prune(builder, by(type="exec.cachemount"))["CachesDeleted"]) == 1
    assert builder.request("POST", "/build/prune" + by(nope="1")).status == 400


def test_a_daemon_killed_within_a_step_leaves_nothing_and_keeps_what_was_made(builder: Daemon) -> None:
    """The container of the step goes at the next start, and the finished steps need not run again."""
    word = unique()
    dockerfile = f"FROM busybox\nRUN echo {word} >/f\nRUN test -e /go || sleep 100\n"
    with builder.connection() as connection:
        body = building.context({"Dockerfile": dockerfile})
        connection.send_request("POST", building.request_target({}), body, building.TAR)
        building.see(lambda: any(word in step for step in steps_of_running(builder)))
        builder.kill9()
    builder.start()
    building.see(lambda: not building.containers(builder))
    made = build(builder, f"FROM busybox\nRUN echo {word} >/f\nLABEL a=b\n")
    assert made.cached == 1 and made.ran == 0


def test_what_a_loss_of_power_may_have_torn_is_forgotten(builder: Daemon) -> None:
    """Images of an unfinished build are in memory alone: with another boot they are gone, and all else is not."""
    word = unique()
    before = images(builder)
    with builder.connection() as connection:
        body = building.context({"Dockerfile": f"FROM busybox\nRUN echo {word} >/f\nRUN sleep 100\n"})
        connection.send_request("POST", building.request_target({}), body, building.TAR)
        building.see(lambda: any(word in step for step in steps_of_running(builder)))
        layers = set(os.listdir(builder.data_root / "layers"))
        builder.kill9()
    with sqlite3.connect(builder.data_root / "engine.db") as database:
        assert database.execute("UPDATE build_unsettled SET boot = 'another'").rowcount == 1
    database.close()
    builder.start()
    building.see(lambda: not building.containers(builder))
    assert images(builder) == before
    assert len(layers - set(os.listdir(builder.data_root / "layers"))) == 1
    assert build(builder, f"FROM busybox\nRUN echo {word} >/f\n").ran == 1
    builder.stop()  # which had the database alone
    with sqlite3.connect(builder.data_root / "engine.db") as database:
        assert database.execute("SELECT COUNT(*) FROM build_unsettled").fetchone() == (0,)
        assert database.execute("SELECT COUNT(*) FROM build_steps").fetchone() == (0,)
    database.close()
    builder.start()


def steps_of_running(builder: Daemon) -> list[str]:
    """What the images of running containers were made by."""
    running = builder.request("GET", "/containers/json").json()
    return [step for container in running for step in history(builder, container["ImageID"])]


def test_two_builds_at_once_make_a_step_once(builder: Daemon) -> None:
    """The one that waits is told what the command writes as it writes it, and has an image of its own form."""
    mount = f"--mount=type=cache,id={unique()},target=/m"
    text = f"FROM busybox\nRUN {mount} echo x >> /m/count; echo heard; sleep 1; echo count $(wc -l < /m/count)\n"
    made: list[building.Built] = []
    threads = [threading.Thread(target=lambda: made.append(build(builder, text))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 2 and all(one.image for one in made)
    for one in made:
        assert "heard" in one.text and "count 1\n" in one.text, one.text
    assert sum(one.ran for one in made) == 1
