"""What `tests.rs` expects, made by others: tokens by the package `tokenizers`, vectors by plain numpy in 64 bits.

Run with numpy and tokenizers installed; prints the constants. The model is small and made up, by the same rule as there.
"""

import math

import numpy as np
from tokenizers import BertWordPieceTokenizer

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] the send ##s mail e - . ! weather to ##morrow tom ##orrow 天 気 cafe [ ] sep a ##b ##c"
TEXTS = ["Send the e-mail!", "Tomorrow's WEATHER", "Café\tcafé\u0301 天気", "xyz [SEP] abc.", "", "sends " * 20]
WIDTH, HEADS, INNER, LAYERS, POSITIONS, EPSILON = 8, 2, 12, 2, 16, 1e-12

state = 1


def numbers(rows, columns=None, middle=0.0):
    global state
    values = []
    for _ in range(rows * (columns or 1)):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(np.float32(middle + state / 2**31 - 0.5))
    return np.array(values, dtype=np.float64).reshape((rows, columns) if columns else (rows,))


def linear(to, of):
    return numbers(to, of), numbers(to)


def norm():
    return numbers(WIDTH, middle=1.0), numbers(WIDTH)


def apply_norm(x, scale_shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * scale_shift[0] + scale_shift[1]


pieces = PIECES.split()
words, positions, types, first = numbers(len(pieces), WIDTH), numbers(POSITIONS, WIDTH), numbers(2, WIDTH), norm()
layers = [
    (linear(WIDTH, WIDTH), linear(WIDTH, WIDTH), linear(WIDTH, WIDTH), linear(WIDTH, WIDTH), norm(),
     linear(INNER, WIDTH), linear(WIDTH, INNER), norm())
    for _ in range(LAYERS)
]
tokenizer = BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)}, lowercase=True)
# A text that looks like a token is a text.
tokenizer._tokenizer.encode_special_tokens = True
gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
for text in TEXTS:
    ids = tokenizer.encode(text).ids
    ids = ids if len(ids) <= POSITIONS else ids[: POSITIONS - 1] + [3]
    x = apply_norm(words[ids] + positions[: len(ids)] + types[0], first)
    for query, key, value, out, out_norm, inner, outer, outer_norm in layers:
        q, k, v = (x @ weight.T + bias for weight, bias in (query, key, value))
        heads, size = [], WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(size))
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, part])
        x = apply_norm(np.concatenate(heads, 1) @ out[0].T + out[1] + x, out_norm)
        x = apply_norm(gelu(x @ inner[0].T + inner[1]) @ outer[0].T + outer[1] + x, outer_norm)
    for pooled in (x.mean(0), x[0]):
        pooled = pooled / np.linalg.norm(pooled)
        print(repr(text[:20]), ids, [round(float(number), 5) for number in pooled])
