"""The endpoints that the engine has; every other path of the definition answers 501 in words."""

BUILT = {
    ("GET", "/_ping"),
    ("HEAD", "/_ping"),
    ("GET", "/version"),
    ("GET", "/info"),
    ("POST", "/auth"),
    ("POST", "/containers/create"),
    ("GET", "/containers/json"),
    ("GET", "/containers/{id}/json"),
    ("POST", "/containers/{id}/start"),
    ("POST", "/containers/{id}/wait"),
    ("GET", "/containers/{id}/logs"),
    ("POST", "/containers/{id}/attach"),
    ("POST", "/containers/{id}/stop"),
    ("POST", "/containers/{id}/kill"),
    ("DELETE", "/containers/{id}"),
    ("POST", "/images/create"),
    ("GET", "/images/json"),
    ("GET", "/images/{name}/json"),
    ("DELETE", "/images/{name}"),
    ("POST", "/images/load"),
}
