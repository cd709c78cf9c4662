import base64
import ctypes
import functools
import hashlib
import importlib.util
import json
import operator
import os
import platform
import re
import tempfile

import torch

