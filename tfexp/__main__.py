"""`python -m tfexp` is the same as `tfexp`."""

import sys

from tfexp.cli.main import main

sys.exit(main())
