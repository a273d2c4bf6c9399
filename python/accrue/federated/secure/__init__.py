"""Sums of int64 words that hide the addends: pairwise masks modulo 2^64, which cancel exactly.

The protocol is that of Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), against a server that
follows it and is curious, with two masks for each client. docs/notes/secure_sums.md has the threat model.

    session                        what a sum is called, and how many clients it needs
    keys, masks, shamir, sealed    key agreement, streams of masks, shares of secrets, encrypted shares
    participant, aggregator        what a client and the server do in each phase, without messages
    exact, needs, words, window    numbers as words: any double, the units that clients need, sums, and both vectors of a window
    wire, answers, attempt         the phases as Flower's messages: a client's answers, and the server's attempt at a round
"""
