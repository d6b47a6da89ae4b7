"""The equations of the papers in NumPy, one row at a time: the oracles of the tests."""

import numpy as np


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def scaled_dot_product_attention(query, keys, values, mask):
    """Vaswani et al. 2017, equation 1: query (T, d), keys (S, d), values (S, e), mask (T, S)."""
    output = np.zeros((len(query), values.shape[1]))
    for t, q in enumerate(query):
        seen = np.flatnonzero(mask[t])
        scores = np.array([q @ keys[j] / np.sqrt(len(q)) for j in seen])
        output[t] = softmax(scores) @ values[seen]
    return output


def additive_attention(state, annotations, w, u, v, mask):
    """Bahdanau et al. 2015, appendix A.1.2: the weights (S,) of annotations (S, M) for a state."""
    seen = np.flatnonzero(mask)
    scores = np.array([v @ np.tanh(w @ state + u @ annotations[j]) for j in seen])
    weights = np.zeros(len(annotations))
    weights[seen] = softmax(scores)
    return weights


def rope(x, first_position=0, base=10_000.0):
    """Su et al. 2021, equation 15: x (T, d) by block matrices over the pairs (i, i + d/2)."""
    rotated = np.zeros_like(x)
    half = x.shape[1] // 2
    for t, row in enumerate(x):
        for i in range(half):
            angle = (first_position + t) * base ** (-2 * i / x.shape[1])
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            rotated[t, [i, i + half]] = turn @ row[[i, i + half]]
    return rotated


def multi_head_attention(x, memory, weights, *, num_heads, num_kv_heads, mask, rotary=False):
    """Vaswani et al. 2017, section 3.2.2, with heads shared by groups (Ainslie et al. 2023).

    x (T, D), memory (S, D); weights: matrices query (D, D), key and value (K d, D), output (D, D),
    each applied as W x.
    """
    head_width = x.shape[1] // num_heads
    heads = []
    for head in range(num_heads):
        own = slice(head * head_width, (head + 1) * head_width)
        group = head // (num_heads // num_kv_heads)
        shared = slice(group * head_width, (group + 1) * head_width)
        query = x @ weights["query"][own].T
        keys = memory @ weights["key"][shared].T
        values = memory @ weights["value"][shared].T
        if rotary:
            query, keys = rope(query), rope(keys)
        heads.append(scaled_dot_product_attention(query, keys, values, mask))
    return np.concatenate(heads, axis=1) @ weights["output"].T


def sparse_mask(kind, length, *, window, global_tokens, seed):
    """Who sees whom in a sentence of its own: Beltagy et al. 2020, Zaheer et al. 2020, chunks."""
    mask = np.zeros((length, length), dtype=bool)
    for i in range(length):
        block = i // window
        for j in range(length):
            back = block - j // window
            if kind == "sliding_window":
                mask[i, j] = abs(i - j) <= window or min(i, j) < global_tokens
            elif kind == "bigbird":
                mask[i, j] = abs(back) <= 1 or min(i, j) < global_tokens
            else:
                mask[i, j] = back in (0, 1)
        if kind == "bigbird":
            far = [b for b in range(-(-length // window)) if abs(b - block) > 1]
            for b in sorted(far, key=lambda b: -block_hash(seed, block, b))[:1]:
                mask[i, b * window : (b + 1) * window] = True
    return mask


def block_hash(seed, i, j):
    mixed = (seed * 668265263 + i * 374761393 + j * 1274126177) % 2**31
    for shift in (15, 13):
        mixed = (mixed ^ (mixed >> shift)) * 1103515245 % 2**31
    return mixed ^ (mixed >> 16)


def kernel_attention(query, keys, values, projection):
    """Sums over keys of sim(q, k) v / sim(q, k); sim of elu + 1, or of positive random features."""

    def features(x):
        if projection is None:
            return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
        x = x / len(x) ** 0.25
        return np.exp(projection @ x - x @ x / 2)

    output = np.zeros((len(query), values.shape[1]))
    for t, q in enumerate(query):
        similarities = np.array([features(q) @ features(k) for k in keys])
        output[t] = similarities @ values / similarities.sum()
    return output


def relative_bucket(distance, *, bidirectional, num_buckets=32, farthest=128):
    """Raffel et al. 2020, section 2.1, in words: half exact, then logarithmic, then one for all."""
    if bidirectional:
        num_buckets //= 2
        offset = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        offset, distance = 0, max(0, -distance)
    exact = num_buckets // 2
    if distance < exact:
        return offset + distance
    share = np.log(distance / exact) / np.log(farthest / exact)
    return offset + min(exact + int(share * (num_buckets - exact) + 1e-9), num_buckets - 1)
