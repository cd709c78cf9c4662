import ctypes
import functools
import hashlib
import importlib.util
import operator
import os
import platform
import re
import tempfile

import torch

