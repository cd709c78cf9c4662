import base64
import ctypes
import glob
import hashlib
import json
import os
import platform
import sys
import tempfile

import torch

