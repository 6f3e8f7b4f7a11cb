"""The tools find what is installed beside the Python that runs the tests: ripgrep, for one."""

from __future__ import annotations

import os
import sys

os.environ["PATH"] = os.pathsep.join(
    [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
)
