"""`python -m imgrec` is the `imgrec` command."""

import sys

from imgrec.cli.main import main

sys.exit(main())
