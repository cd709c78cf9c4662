"""Order statistics: no assumption is made on the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def median_bounds(values: Iterable[float]) -> tuple[float, float, float]:
    """The median and its 95 % confidence interval; the whole range when there
    are few values."""
    ordered = sorted(values)
    count = len(ordered)
    reach = 0.98 * math.sqrt(count)  # 1.96 standard deviations of a binomial
    high = min(count - 1, math.ceil(count / 2 + reach))
    return statistics.median(ordered), ordered[count - 1 - high], ordered[high]


def quantile(values: Iterable[float], share: float) -> float:
    """The value that such a share of them lies below, at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
