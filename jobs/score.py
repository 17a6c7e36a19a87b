"""`spark-submit jobs/score.py ARGUMENTS` does what `prspark score ARGUMENTS` does, on the cluster's session."""

import sys

from prspark.cli import main

sys.exit(main(["score", *sys.argv[1:]]))
