"""A text whose words are distributed as Zipf has it, made from a seed: and how often each word is
in it, which is the right answer to counting them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

WORDS = 100_000
LINE = 12  # words
CHUNK = 6_000_000  # words of one file, about 45 MB
_LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


@dataclass(frozen=True)
class Corpus:
    """Its files, and how often each word occurs."""

    folder: Path
    counts: dict[str, int]
    bytes: int


def generate(folder: Path, gigabytes: float, seed: int) -> Corpus:
    """Writes text files of about so many bytes; the same for the same seed. The word of rank r is
    as frequent as 1/r says."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    words = _vocabulary(random)
    # A word is followed by a blank, the last one of a line by its end.
    ended = pa.array([f"{word} " for word in words] + [f"{word}\n" for word in words])
    lengths = np.array([len(word) + 1 for word in words])
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    shares /= shares[-1]
    counts = np.zeros(WORDS, dtype=np.int64)
    written, wanted, number = 0, round(gigabytes * 1e9), 0
    while written < wanted:
        ids = np.searchsorted(shares, random.random(CHUNK)).astype(np.int32)
        # Of the last file as many words as are wanted still.
        keep = int(np.searchsorted(np.cumsum(lengths[ids]), wanted - written)) + 1
        keep = min(CHUNK, -(-keep // LINE) * LINE)
        ids = ids[:keep]
        counts += np.bincount(ids, minlength=WORDS)
        ids[LINE - 1 :: LINE] += WORDS
        text = ended.take(pa.array(ids))
        end = int(np.frombuffer(text.buffers()[1], dtype=np.int32)[len(text)])
        with (folder / f"part-{number:05}.txt").open("wb") as file:
            file.write(text.buffers()[2][:end])
        written += end
        number += 1
    found = {word: int(count) for word, count in zip(words, counts, strict=True) if count}
    return Corpus(folder, found, written)


def _vocabulary(random: np.random.Generator) -> list[str]:
    """Different words of letters as frequent as in English, the frequent ones shorter."""
    weights = 1 / np.arange(1, len(_LETTERS) + 1)
    letters = random.choice(len(_LETTERS), size=(2 * WORDS, 16), p=weights / weights.sum())
    more = random.integers(0, 4, size=len(letters))
    found: dict[str, None] = {}
    for row, beyond in zip(letters, more, strict=True):
        length = 2 + int(np.log2(len(found) + 2) / 2) + int(beyond)
        found.setdefault("".join(_LETTERS[letter] for letter in row[:length]))
        if len(found) == WORDS:
            break
    return list(found)
