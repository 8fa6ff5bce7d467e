"""Titles into slugs: `Hello, World!` becomes `hello-world`."""


def slug(title: str) -> str:
    return title.replace(" ", "-")
