"""Initial values: one random stream per parameter path.

Two variants of a model that share a parameter's path and shape share its initial value for one
seed, whatever else differs between them.
"""

from collections.abc import Mapping

import torch
from torch import nn

from tfexp.components.base import Init, Linear
from tfexp.streams import stream_seed, torch_stream


def init_parameters(model: nn.Module, recipes: Mapping[str, Init], seed: int) -> None:
    """Draw every parameter of `model` from the stream `init/<path>`.

    Linear maps and embeddings follow the recipe; biases are zero. Any other module with parameters
    of its own keeps torch's convention: if it has `reset_parameters`, that is called with the
    global generator at the start of the module's stream, else the constructor's values stay.

    Args:
        model: Its parameters are overwritten.
        recipes: `encoder`, `decoder` or both, since a recipe may depend on the depth of the stack; what
            is in no stack follows the last.
        seed: Of the streams.
    """
    seen: set[int] = set()
    *_, last = recipes.values()
    with torch.no_grad():
        for path, module in model.named_modules():
            own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
            seen.update(id(p) for p in own)
            if own:
                recipe = recipes.get(path.partition(".")[0], last)
                _init_module(path, module, recipe, seed, {id(p) for p in own})


def _init_module(path: str, module: nn.Module, recipe: Init, seed: int, own: set[int]) -> None:
    if isinstance(module, nn.Embedding):
        recipe.embedding(module.weight, torch_stream(seed, f"init/{path}.weight"))
    elif isinstance(module, nn.Linear):
        role = module.role if isinstance(module, Linear) else "hidden"
        if id(module.weight) in own:  # else it is tied, and was drawn under its first path
            recipe.linear(module.weight, role, torch_stream(seed, f"init/{path}.weight"))
        if module.bias is not None:
            module.bias.zero_()
    elif callable(reset := getattr(module, "reset_parameters", None)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, f"init/{path}"))
            reset()
