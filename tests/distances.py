"""How far two samples are from each other, and how far chance would take them."""

import math
from collections import Counter


def total_variation(first, second):
    """Half the sum of the differences between two samples' frequencies."""
    counts = [Counter(sample) for sample in (first, second)]
    sizes = [sum(count.values()) for count in counts]
    return 0.5 * sum(
        abs(counts[0][key] / sizes[0] - counts[1][key] / sizes[1])
        for key in counts[0] | counts[1]
    )


def chance(sample, size):
    """The expected distance of so many independent draws from the sample's frequencies.

    Of each frequency, the normal distribution's mean deviation is taken, but no more
    than twice the frequency, which is what is expected where it is very small.
    """
    counts = Counter(sample)
    total = sum(counts.values())
    shares = [count / total for count in counts.values()]
    return 0.5 * sum(
        min(math.sqrt(2 / math.pi * share * (1 - share) / size), 2 * share)
        for share in shares
    )
