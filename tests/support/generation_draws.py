"""Generation configs drawn at random, of what changes the greedy text of transformers' generate()."""


def _words(random, vocab, most):
    return [[random.randrange(vocab) for _ in range(random.randint(1, 3))] for _ in range(random.randint(1, most))]


def drawn_rules(random, vocab, length, share=0.3):
    """Keys of a generation_config.json, each of which is there with this probability, for a text of some `length`. An end that is forced
    is never suppressed, which transformers refuses."""
    ends = random.sample(range(vocab), 2)
    others = [token for token in range(vocab) if token not in ends]
    values = {
        "repetition_penalty": lambda: random.choice((0.8, 1.2, 1.7)),
        "encoder_repetition_penalty": lambda: random.choice((0.7, 1.0, 1.4)),
        "no_repeat_ngram_size": lambda: random.randint(0, 4),
        "encoder_no_repeat_ngram_size": lambda: random.randint(1, 3),
        "bad_words_ids": lambda: [*_words(random, vocab, 6), [others[0]]],  # transformers refuses ends alone
        "min_length": lambda: random.randint(0, length + 8),
        "min_new_tokens": lambda: random.randint(0, 8),
        "forced_bos_token_id": lambda: ends[0],
        "forced_eos_token_id": lambda: random.choice((ends[0], ends)),
        "exponential_decay_length_penalty": lambda: [random.randint(0, 4), random.choice((1.02, 1.3))],
        "suppress_tokens": lambda: random.sample(others, random.randint(1, vocab // 4)),
        "begin_suppress_tokens": lambda: random.sample(range(vocab), random.randint(1, vocab // 4)),
        "sequence_bias": lambda: [[word, random.choice((-3.0, -0.25, 0.5, 2.0))] for word in _words(random, vocab, 6)],
    }
    drawn = {"eos_token_id": random.choice((ends[0], ends))}
    drawn.update({key: value() for key, value in values.items() if random.random() < share})
    return drawn
