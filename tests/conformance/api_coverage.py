"""Which methods of the Cloud TPU API does the server answer, and in which versions?

    python tests/conformance/api_coverage.py

prints a table in Markdown, made from the server's own table of methods.
"""

from __future__ import annotations

from tpuctl.server.handlers import HANDLERS
from tpuctl.server.methods import METHODS, VERSIONS, Method


def table() -> list[str]:
    """The table's lines: a method each, with yes, no (UNIMPLEMENTED), or nothing where a version has no such method."""
    head = ["| method | " + " | ".join(VERSIONS) + " |", "|---|" + "---|" * len(VERSIONS)]
    return head + [f"| {' | '.join([one.id, *(mark(one, version) for version in VERSIONS)])} |" for one in METHODS]


def mark(method: Method, version: str) -> str:
    if version not in method.versions:
        return ""
    return "yes" if method.id in HANDLERS else "no"


def main() -> None:
    print("\n".join(table()))
    for version in VERSIONS:
        marks = [mark(method, version) for method in METHODS]
        print(f"\n{version}: {marks.count('yes')} of {len(marks) - marks.count('')} methods")


if __name__ == "__main__":
    main()
