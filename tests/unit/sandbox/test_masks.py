"""engine.sandbox.masks: which paths of this host are hidden."""

from pathlib import Path

from engine.sandbox import masks


def test_each_processor_that_tells_of_its_heat_is_hidden(tmp_path: Path) -> None:
    """In the order of their numbers; what is no processor, or tells nothing, is passed over."""
    for name in ("cpu10", "cpu2", "cpufreq", "cpu", "cpu0x", "cpuidle"):
        (tmp_path / name / "thermal_throttle").mkdir(parents=True)
    (tmp_path / "cpu3").mkdir()
    (tmp_path / "cpu4").mkdir()
    (tmp_path / "cpu4/thermal_throttle").touch()
    assert masks.throttles(str(tmp_path)) == tuple(f"{tmp_path}/cpu{number}/thermal_throttle" for number in (2, 10))


def test_a_host_whose_processors_tell_nothing_has_none(tmp_path: Path) -> None:
    assert masks.throttles(str(tmp_path)) == masks.throttles(str(tmp_path / "nothing")) == ()


def test_those_of_this_host_are_masked_beside_the_fixed_ones() -> None:
    found = {str(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle")}
    assert {path for path in masks.MASKED_PATHS if "/cpu/" in path} == found
    assert "/sys/firmware" in masks.MASKED_PATHS
