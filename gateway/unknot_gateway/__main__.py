"""The command `unknot`, also as `python -m unknot_gateway`."""

import sys

# What the extra `gateway` brings and the base install does not.
EXTRA = frozenset({"click", "structlog", "uvloop"})


def main() -> None:
    """Run the command. Where the extra `gateway` is not installed: say so on stderr, exit code 2."""
    try:
        from unknot_gateway.cli import main as command  # noqa: PLC0415 - the wheel is installed without it too

        command()
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRA:
            raise
        sys.stderr.write(
            f"The command needs {missing.name}, which comes with the gateway: pip install 'unknot[gateway]'\n"
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
