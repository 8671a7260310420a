"""`python -m mondrian`, which is also what torchrun starts: `torchrun ... -m mondrian train ...`."""

import sys

from mondrian.cli import main

if __name__ == "__main__":
    sys.exit(main())
