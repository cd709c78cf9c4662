import base64
import ctypes
import glob
import hashlib
import json
import os
import platform
import re
import sys
import tempfile

import torch

