"""Questions to a GPU's driver, with a driver that stands in for it."""

import unittest

from weft.device import cuda_driver as driver_module
from weft.device.gpu_facts import clusters


class StandIn(driver_module.Driver):
    """A device of `major`, with groups of multiprocessors of these sizes."""

    def __init__(self, major, groups, largest=16):
        self.major, self.groups, self.largest = major, groups, largest
        self.asked = []

    def call(self, name, *arguments):
        if name == "cuDeviceGetAttribute":
            value, number, _ = arguments
            value._obj.value = {75: self.major, 97: 232448}[number]
        elif name == "cuFuncSetAttribute":
            self.asked.append(arguments[1:])
        elif name == "cuOccupancyMaxActiveClusters":
            count, _, config = arguments
            config = config._obj
            attribute = config.attributes[0]
            blocks = attribute.value[0]
            assert attribute.id == 4 and config.grid[0] == blocks
            assert config.shared_bytes == 232448
            if blocks > self.largest:
                raise driver_module.CudaError(name, "CUDA_ERROR", "no")
            count._obj.value = sum(size // blocks for size in self.groups)

    device = 0


class Clusters(unittest.TestCase):
    def test_as_many_fit_as_the_driver_says(self):
        driver = StandIn(9, [18] * 6 + [16, 8])
        self.assertEqual(
            clusters(driver),
            {"clusters_of_2": 66, "clusters_of_4": 30, "clusters_of_8": 15, "clusters_of_16": 7},
        )
        # Clusters of more than eight blocks have to be asked for.
        self.assertIn((14, 1), driver.asked)

    def test_a_size_that_the_device_has_not_is_left_out(self):
        self.assertEqual(
            list(clusters(StandIn(9, [8] * 10, largest=8))),
            ["clusters_of_2", "clusters_of_4", "clusters_of_8"],
        )

    def test_a_device_without_clusters_is_not_asked(self):
        driver = StandIn(8, [16])
        self.assertEqual(clusters(driver), {})
        self.assertEqual(driver.asked, [])


if __name__ == "__main__":
    unittest.main()
