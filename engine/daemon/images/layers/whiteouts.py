"""Constants for whiteouts, which mark files of lower layers as deleted: names in layers' tars, and overlayfs's
attribute.

Formats: OCI image-spec, layer.md; the kernel's Documentation/filesystems/overlayfs.rst.
"""

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
OPAQUE_ATTRIBUTE = "trusted.overlay.opaque"
