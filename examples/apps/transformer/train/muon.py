# SPDX-License-Identifier: MIT
"""The optimizer: Muon for the matrices inside the layers, AdamW for the embedding and the norms.

Muon replaces the momentum of a matrix by the nearest orthogonal matrix, found by a Newton-Schulz iteration
(Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks").
"""

import torch

QUINTIC = 3.4445, -4.7750, 2.0315


def orthogonalize(matrix, steps=5):
    """Approximates U V', where U S V' is the singular value decomposition of matrix."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.t() if tall else matrix).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.t()
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.t() if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.05):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            momentum = group["momentum"]
            for matrix in group["params"]:
                state = self.state[matrix]
                average = state.setdefault("average", torch.zeros_like(matrix))
                average.lerp_(matrix.grad, 1 - momentum)
                update = orthogonalize(matrix.grad.lerp(average, momentum))
                scale = max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * scale)


class Optimizer:
    """Both optimizers, stepped together; a rate of 1 is their full learning rates."""

    def __init__(self, model, matrix_rate, other_rate):
        inner = list(model.layers.named_parameters())
        matrices = [parameter for _, parameter in inner if parameter.dim() == 2]
        norms = [parameter for _, parameter in inner if parameter.dim() == 1] + [model.norm.weight]
        self.parts = [Muon(matrices, matrix_rate),
                      torch.optim.AdamW([dict(params=[model.embedding.weight], weight_decay=0.01),
                                         dict(params=norms, weight_decay=0.0)], other_rate, betas=(0.9, 0.95))]
        self.rates = matrix_rate, other_rate

    def step(self, rate):
        for part, full in zip(self.parts, self.rates):
            for group in part.param_groups:
                group["lr"] = full * rate
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self):
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states):
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
