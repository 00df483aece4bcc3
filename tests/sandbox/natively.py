"""Process 1 by the C muxer: calls it in the child of a test as the keeper does in its own."""

from engine.sandbox import plan


def be_born(wanted: bytes, place: str, stdio: tuple[int, ...], reports: int) -> None:
    """Become what the plan says; does not return. place: where to prepare first, empty for nowhere."""
    from _muxer._native import ffi, lib  # late: only where it is built

    furniture = plan.furniture()
    lib.mux_be_born(wanted, len(wanted), furniture, len(furniture), place.encode() or ffi.NULL, stdio, reports)
