"""`spark-submit jobs/calibrate.py ARGUMENTS` does what `prspark calibrate ARGUMENTS` does, on the cluster's session."""

import sys

from prspark.cli import main

sys.exit(main(["calibrate", *sys.argv[1:]]))
