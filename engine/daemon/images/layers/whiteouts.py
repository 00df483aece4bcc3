"""Constants for whiteouts, which mark files of lower layers as deleted: names in layers' tars, and overlayfs's
attribute.

Formats: OCI image-spec, layer.md; the kernel's Documentation/filesystems/overlayfs.rst.
"""

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
TRUSTED_OPAQUE = "trusted.overlay.opaque"
USER_OPAQUE = "user.overlay.opaque"
"""The same for overlays that are mounted with `userxattr`, as those of a user namespace are."""
