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
import shutil
import subprocess
import sys
import tempfile

import torch

