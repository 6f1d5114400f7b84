"""The command line in this process, for the tests of all surfaces."""

from tests.cli.conftest import slipstream  # noqa: F401
