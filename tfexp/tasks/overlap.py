"""How much decoded text overlaps with its references: sacreBLEU's scores, with their signatures."""

from typing import Literal

from sacrebleu.metrics import BLEU, CHRF

BLEUTokenizer = Literal["13a", "intl", "char", "none", "zh", "flores200"]


def bleu_scorer(tokenizer: BLEUTokenizer) -> BLEU:
    """Corpus BLEU, 0 to 100.

    Args:
        tokenizer: sacreBLEU's; `none` for text that is tokenized already.
    """
    # `force` only silences the advice not to score tokenized text, which `none` is for.
    return BLEU(tokenize=tokenizer, force=tokenizer == "none")


def chrf_scorer() -> CHRF:
    """Character n-gram F-score, 0 to 100."""
    return CHRF()


def signature(scorer: BLEU | CHRF) -> str:
    """How a scorer scores, in sacreBLEU's own words; it says so only after it has scored something."""
    scorer.corpus_score(["a"], [["a"]])
    return str(scorer.get_signature())
