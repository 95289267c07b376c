"""Sampling from a sharpened and truncated distribution."""

from tfexp.generation.law import Epsilon, MinP, Temperature, TopK, TopP, TypicalP
from tfexp.generation.sampler import Sampler
from tfexp.registry import register


@register("generation", "sample")
class Sample(Sampler):
    """Draw from softmax(scores / temperature), truncated in this order: top k, top p, min p, typical, epsilon.

    Args:
        temperature: Below 1 sharpens, above 1 flattens; 0 is refused, use generation=greedy.
        top_k: Keep the k most probable tokens; null = all. Usual: 40.
        top_p: Keep the smallest set of most probable tokens whose mass reaches p, the token that
            crosses it included; 1 = all. Usual: 0.9.
        min_p: Keep tokens with at least this share of the largest probability; 0 = all. Usual: 0.05.
        typical_p: Keep the tokens whose surprise is nearest to the entropy until their mass reaches this;
            1 = all. Usual: 0.95.
        epsilon: Keep tokens of at least this probability; 0 = all. Usual: 0.0003.

    Source: Ackley et al., 1985 (temperature); Fan et al., 2018, arXiv:1805.04833 (top k);
        Holtzman et al., 2020, arXiv:1904.09751 (top p); Nguyen et al., 2024, arXiv:2407.01082 (min p);
        Meister et al., 2023, arXiv:2202.00666 (typical); Hewitt et al., 2022, arXiv:2210.15191 (epsilon).
    """

    def __init__(
        self,
        *,
        temperature: Temperature = 1.0,
        top_k: TopK = None,
        top_p: TopP = 1.0,
        min_p: MinP = 0.0,
        typical_p: TypicalP = 1.0,
        epsilon: Epsilon = 0.0,
    ) -> None:
        super().__init__(temperature, top_k, top_p, min_p, typical_p, epsilon)
