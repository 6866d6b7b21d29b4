"""`python -m gaptrace`."""

import sys

from gaptrace.cli import main

sys.exit(main())
