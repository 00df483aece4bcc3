"""How a layer says that something below it is gone: the names that layers' tars use, and overlayfs's attribute. Data.

Formats: OCI image-spec, layer.md; the kernel's Documentation/filesystems/overlayfs.rst.
"""

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
OPAQUE_ATTRIBUTE = "trusted.overlay.opaque"
