"""`python -m kvdsl`."""

import sys

from kvdsl.cli import main

if __name__ == "__main__":
    sys.exit(main())
