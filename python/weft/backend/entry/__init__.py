"""How users and PyTorch call weft: torch.compile's backend and weft.optimize."""
