"""`python -m prspark` is the console script."""

import sys

from prspark.cli import main

sys.exit(main())
