"""A plain torch implementation of the Differentiable Neural Computer.

This module implements the equations of Graves et al., "Hybrid computing using a neural
network with dynamic external memory" (2016), Methods, with one write head and an LSTM
controller. torch computes the gradients. Neither Keras nor this package is used.

Shapes: B batch, T steps, D width of an input, M slots, W word width, R read heads,
U units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

Tensor = Any
SMALL = 1e-6


class State(NamedTuple):
    """The state after a step."""

    hidden: Tensor  # (B, U)
    carry: Tensor  # (B, U)
    read: Tensor  # (B, R, W)
    memory: Tensor  # (B, M, W)
    usage: Tensor  # (B, M)
    links: Tensor  # (B, M, M)
    precedence: Tensor  # (B, M)
    write_weights: Tensor  # (B, M)
    read_weights: Tensor  # (B, R, M)


class PlainDNC(nn.Module):
    """Maps sequences (B, T, D) to outputs (B, T, V).

    Args:
        slots: M.
        width: W.
        heads: R.
        lstm: kernel (D + R·W, 4U), recurrent kernel (U, 4U) and bias (4U). The order of
            the gates is input, forget, candidate, output.
        interface: kernel (U, ·) and bias of ξ.
        output: kernel (U + R·W, V) and bias.
    """

    def __init__(
        self, slots: int, width: int, heads: int, lstm: Any, interface: Any, output: Any
    ) -> None:
        super().__init__()
        self.sizes = (slots, width, heads)
        self.lstm, self.interface, self.output = (
            nn.ParameterList([torch.tensor(array) for array in arrays])
            for arrays in (lstm, interface, output)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns outputs (B, T, V)."""
        state, outputs = self.start(len(inputs)), []
        for x in inputs.unbind(1):
            state = self.step(x, state)
            outputs.append(torch.cat([state.hidden, state.read.flatten(1)], 1))
        kernel, bias = self.output
        return torch.stack(outputs, 1) @ kernel + bias

    def start(self, batch: int) -> State:
        """Returns a state of zeros."""
        slots, width, heads = self.sizes
        units = self.lstm[1].shape[0]
        shapes = [(units,), (units,), (heads, width), (slots, width), (slots,)]
        shapes += [(slots, slots), (slots,), (slots,), (heads, slots)]
        return State(*(torch.zeros(batch, *shape) for shape in shapes))

    def step(self, x: Tensor, s: State) -> State:
        """Runs the controller and then the memory. Returns the new state."""
        slots, width, heads = self.sizes
        kernel, recurrent, bias = self.lstm
        z = torch.cat([x, s.read.flatten(1)], 1) @ kernel + s.hidden @ recurrent + bias
        i, f, g, o = z.chunk(4, 1)
        carry = f.sigmoid() * s.carry + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * carry.tanh()

        xi = hidden @ self.interface[0] + self.interface[1]
        sizes = [heads * width, heads, width, 1, width, width, heads, 1, 1, 3 * heads]
        kr, br, kw, bw, e, v, f, ga, gw, pi = xi.split(sizes, 1)
        kr, pi = kr.unflatten(1, (heads, width)), pi.unflatten(1, (heads, 3))
        br, bw = 1 + functional.softplus(br), 1 + functional.softplus(bw)
        e, f, ga, gw, pi = (
            e.sigmoid(),
            f.sigmoid(),
            ga.sigmoid(),
            gw.sigmoid(),
            pi.softmax(2),
        )

        kept = (1 - f[:, :, None] * s.read_weights).prod(1)  # ψ (B, M)
        usage = (s.usage + s.write_weights - s.usage * s.write_weights) * kept
        allocation = allocate(usage)
        content = content_weights(s.memory, kw[:, None], bw)[:, 0]  # (B, M)
        w = gw * (ga * allocation + (1 - ga) * content)
        memory = (
            s.memory * (1 - w[:, :, None] * e[:, None]) + w[:, :, None] * v[:, None]
        )

        keep = 1 - w[:, :, None] - w[:, None]  # (B, M, M)
        links = keep * s.links + w[:, :, None] * s.precedence[:, None]
        links = links * (1 - torch.eye(slots))
        precedence = (1 - w.sum(1, keepdim=True)) * s.precedence + w
        forward = s.read_weights @ links.transpose(1, 2)  # (B, R, M)
        backward = s.read_weights @ links
        content = content_weights(memory, kr, br)
        back, same, fore = (pi[:, :, n, None] for n in range(3))
        read_weights = back * backward + same * content + fore * forward
        read = read_weights @ memory  # (B, R, W)
        return State(
            hidden, carry, read, memory, usage, links, precedence, w, read_weights
        )


def allocate(usage: Tensor) -> Tensor:
    """Returns the allocation a[φⱼ] = (1 − u[φⱼ]) ∏ᵢ₍ᵢ₌₁…ⱼ₋₁₎ u[φᵢ], (B, M)."""
    usage = SMALL + (1 - SMALL) * usage
    ordered, order = usage.sort(dim=1, stable=True)
    before = functional.pad(ordered, (1, 0), value=1.0).cumprod(1)[:, :-1]
    return ((1 - ordered) * before).gather(1, order.argsort(1))


def content_weights(memory: Tensor, keys: Tensor, strengths: Tensor) -> Tensor:
    """Returns softmax(β cos(k, M[i])), (B, R, M), for keys (B, R, W)."""
    long = (memory.square().sum(2) + SMALL).sqrt()[:, None]  # (B, 1, M)
    wide = (keys.square().sum(2, keepdim=True) + SMALL).sqrt()  # (B, R, 1)
    cosine = keys @ memory.transpose(1, 2) / (wide * long)
    return (strengths[:, :, None] * cosine).softmax(2)
