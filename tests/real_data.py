"""Where published data sets lie that tests use if they are there; none is part of the repository."""

import os

from tests.runs import ROOT

FOLDER = (ROOT / os.environ.get("TFEXP_TEST_DATA", "../shared/data")).resolve()
