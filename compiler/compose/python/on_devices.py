

# A kernel on a GPU cannot read the processor's memory, not even one number.
def _weft_on_devices(constant):
    """A function that gives the constant on a device, copied there once."""
    copies = {constant.device: constant}

    def on(device):
        if device not in copies:
            copies[device] = constant.to(device)
        return copies[device]

    return on


