"""`python -m bursa.cli` is `bursa`."""

import sys

from bursa.cli.main import main

sys.exit(main())
