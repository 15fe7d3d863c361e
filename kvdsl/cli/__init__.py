"""The command line: one file a command; talk on stderr, data on stdout."""

from kvdsl.cli.application import main

__all__ = ["main"]
