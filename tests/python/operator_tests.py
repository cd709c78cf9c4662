"""PyTorch's own tests of operators and modules (OpInfo, ModuleInfo), without the
package expecttest, of which they need only the base class of their test cases."""

import importlib.util
import sys
import types
import unittest

if importlib.util.find_spec("expecttest") is None:
    stand_in = types.ModuleType("expecttest")
    setattr(stand_in, "TestCase", unittest.TestCase)
    sys.modules["expecttest"] = stand_in

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.testing._internal.opinfo.core import OpInfo  # noqa: E402

__all__ = ["OpInfo", "module_db", "op_db"]
