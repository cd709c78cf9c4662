"""Global state of a user's process, which weft must not change."""

import logging
import os
import random
import signal
import sys
import threading
import warnings

import numpy
import torch


def in_force():
    """{name: value now}, to be compared."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return {
        "matrix products in TF32": matmul.allow_tf32,
        "precision of matrix products": torch.get_float32_matmul_precision(),
        "reduced precision": (
            matmul.allow_fp16_reduced_precision_reduction,
            matmul.allow_bf16_reduced_precision_reduction,
        ),
        "convolutions": (cudnn.enabled, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic),
        "oneDNN": torch.backends.mkldnn.enabled,
        "attention": (
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
        ),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        ),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.is_anomaly_enabled(),
        ),
        "flush denormal": float(torch.tensor([1e-40]) * 1) != 0,
        "random numbers": (
            torch.get_rng_state().tolist(),
            random.getstate(),
            str(numpy.random.get_state()),
            _gpu_generators(),
        ),
        "Dynamo's settings": torch._dynamo.config.get_config_copy(),
        "Inductor's settings": torch._inductor.config.get_config_copy(),
        "printing": dict(vars(torch._tensor_str.PRINT_OPTS)),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "umask": _umask(),
        "signals": [
            signal.getsignal(one)
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)
        ],
        "hooks": (sys.excepthook, threading.excepthook, sys.stdout, sys.stderr),
        "logging": [
            (one.level, list(one.handlers))
            for one in (logging.getLogger(), logging.getLogger("torch"))
        ],
        "warnings": list(warnings.filters),
        "interpreter": (sys.getswitchinterval(), sys.getrecursionlimit()),
    }


def _gpu_generators():
    return (
        [one.tolist() for one in torch.cuda.get_rng_state_all()]
        if torch.cuda.is_initialized()
        else []
    )


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def changed(before):
    """Names of what is another than it was."""
    after = in_force()
    return [name for name, value in before.items() if after[name] != value]
