"""Lets `python -m pydisc` run the command `pydisc`."""

import sys

from pydisc.cli.main import main

sys.exit(main())
