"""How time and memory grow: the curves by name.

A curve has a size that grows, such as the length of a sequence, and series, such as
"causal". Each point is measured in a separate process.
"""

from __future__ import annotations

from speed.scale import attention, fast_weights, memories, memory_networks, sets
from speed.scale import generation as sources
from speed.scale.curve import Curve

CURVES: dict[str, Curve] = {
    curve.name: curve
    for curve in (
        attention.attention_curve(),
        attention.window_curve(),
        sets.sets_curve(),
        fast_weights.training_curve(),
        fast_weights.tokens_curve(),
        sources.curve(),
        memories.patterns_curve(),
        memories.lookups_curve(),
        memories.slots_curve(),
        memory_networks.stories_curve(),
        memory_networks.vocabulary_curve(),
    )
}
