"""`spark-submit jobs/plan.py ARGUMENTS` does what `prspark plan ARGUMENTS` does, on the cluster's session."""

import sys

from prspark.cli import main

sys.exit(main(["plan", *sys.argv[1:]]))
