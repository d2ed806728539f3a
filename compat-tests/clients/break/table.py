"""Which breaking must make which check of which client fail. `../prove` shows that it does."""

EVERY = ("java", "go", "python", "node")
WITH_PUSH = ("java", "go", "node")
APPS = ("spring", "dubbo")

# (check, clients, breaking)
TABLE = (
    ("register-ephemeral", EVERY, "register-without-metadata"),
    ("register-ephemeral", ("python",), "register-answers-OK"),
    ("register-persistent", EVERY, "persistent-as-ephemeral"),
    ("update", EVERY, "update-swallowed"),
    ("update", ("node",), "list-stale"),
    ("list", EVERY, "metadata-dropped"),
    ("list", ("go",), "weight-as-text"),
    ("select-healthy", EVERY, "all-healthy"),
    ("select-healthy", ("python",), "healthy-only-dropped"),
    ("select-by-weight", ("java", "go"), "weights-one"),
    ("subscribe", ("java", "go"), "list-without-name"),
    ("subscribe", ("node",), "list-without-clusters"),
    ("subscribe", ("python",), "list-stale"),
    ("push", WITH_PUSH, "push-suppressed"),
    ("push-empty", ("java", "go"), "push-suppressed"),
    ("push-large", WITH_PUSH, "push-suppressed"),
    ("services", WITH_PUSH, "services-without-count"),
    ("groups", EVERY, "group-dropped"),
    ("namespaces", EVERY, "namespace-dropped"),
    ("clusters", EVERY, "clusters-dropped"),
    ("server-status", ("java", "node"), "status-down"),
    ("detail", ("python",), "detail-without-metadata"),
    ("keep-alive", EVERY, "beats-swallowed"),
    ("keep-alive", ("java",), "beats-unknown"),
    ("comes-back", EVERY, "beats-swallowed"),
    ("gone-after-kill", EVERY, "kept-beating"),
    ("gone-after-kill-short", EVERY, "kept-beating"),
    ("deregister", EVERY, "deregister-swallowed"),
    ("registers", APPS, "register-without-metadata"),
    ("services", ("spring",), "services-without-count"),
    ("calls", ("spring",), "ports-elsewhere"),
    # What is lost in a list only, a push may bring; Dubbo's consumer is there before its providers and lives on pushes.
    ("discovers", APPS, "register-without-metadata"),
    ("calls", ("dubbo",), "register-without-metadata"),
    ("calls-back", ("spring",), "ports-elsewhere"),
    ("hears-changes", APPS, "push-suppressed"),
    ("groups", ("spring",), "group-dropped"),
    ("default-settings", ("dubbo",), "register-swallowed"),
    ("gone-after-kill", APPS, "kept-beating"),
    ("leaves", APPS, "deregister-swallowed"),
    ("last-leaves", APPS, "deregister-swallowed"),
)


def breakings_of(client):
    """The breakings of a client, each with the checks that it must make fail."""
    found = {}
    for check, clients, breaking in TABLE:
        if client in clients:
            found.setdefault(breaking, []).append(check)
    return found
