"""A linear map inside a loop over time, whose weight gradient is taken once, after the loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Steps = list[tuple[Tensor, Tensor]]


class RecurrentLinear:
    """x -> x W^T, to be called at every step of a loop.

    With `F.linear` autograd would make a gradient of the size of W at every step and add it to
    the others; here the inputs and output gradients of all steps are kept and multiplied once:
    sum_t g_t^T x_t = G^T X. Same sum, larger product.
    """

    def __init__(self, weight: Tensor) -> None:
        """Takes the weight (outputs, inputs) for one loop; make a new one for the next loop.

        Under autocast the product is in its type, as that of `F.linear`.
        """
        self._steps: Steps = []
        device = weight.device.type
        if torch.is_autocast_enabled(device):
            weight = weight.to(torch.get_autocast_dtype(device))
        self._weight: Tensor = _SumOverSteps.apply(weight, self._steps)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """Returns x W^T (N, outputs) of x (N, inputs)."""
        x = x.to(self._weight.dtype)
        if not torch.is_grad_enabled():
            return x @ self._weight.mT
        product: Tensor = _Step.apply(x, self._weight, self._steps)  # type: ignore[no-untyped-call]
        return product


class _SumOverSteps(torch.autograd.Function):
    """Hands the weight to the steps; its backward runs after that of all of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, steps: Steps) -> Tensor:
        ctx.steps = steps
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, None]:
        inputs, gradients = zip(*ctx.steps, strict=True)
        ctx.steps.clear()
        return torch.cat(gradients).mT @ torch.cat(inputs), None


class _Step(torch.autograd.Function):
    """One product; in backward it leaves the weight's part to `_SumOverSteps`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, steps: Steps) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.steps = steps
        return x @ weight.mT

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        ctx.steps.append((x, gradient))
        return gradient @ weight, None, None
