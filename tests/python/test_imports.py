"""Dependencies of a captured graph besides its file: the modules it imports."""

import unittest

from weft.capture.imports import takes_little


class ImportsTest(unittest.TestCase):
    def test_pytorch_and_pythons_own(self):
        for text in (
            "import torch, math\nimport torch.nn as nn\n",
            "from torch.nn import (\n    functional as F,\n)\n",
            "x = 'import numpy'\n# import numpy\nimport math; import abc\n",
            "",
        ):
            self.assertTrue(takes_little(text), text)

    def test_others(self):
        for text in (
            "import numpy\n",
            "import torch, numpy as np\n",
            "def f():\n    from einops import rearrange\n",
            "from . import other\n",
            "from .torch import x\n",
            "if True: import timm\n",
            "import math; import timm\n",
            "__import__('timm')\n",
            "import importlib\n",
            "exec('import timm')\n",
            "torchvision = 1\nimport torchvision",
        ):
            self.assertFalse(takes_little(text), text)

    def test_no_python(self):
        for text in ("import (", "\0", "(" * 5_000):
            self.assertFalse(takes_little(text), text[:20])


if __name__ == "__main__":
    unittest.main()
