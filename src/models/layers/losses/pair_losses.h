#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/core/loss.h"

namespace accrue::models {

/// A model's results for P pairs; fp64, column 0 of the chosen sequences, column 1 of the rejected
/// ones.
struct PairScores {
  at::Tensor log_probabilities;  ///< [P, 2], summed over the tokens that count
  at::Tensor lengths;            ///< [P, 2], the number of these tokens, at least 1
  at::Tensor reference = {};     ///< [P, 2], the reference's log-probabilities
  at::Tensor weights;            ///< [P], the weight of each pair
};

/// Each is a sum over the pairs with the pairs' weight, differentiable by the log-probabilities. It
/// also reports the sums of `accuracy` (the number of pairs whose chosen sequence has the larger
/// reward) and `margin` (the chosen sequence's reward less the rejected one's), and for orpo_loss
/// `nll`.

/// -log sigmoid(reward of chosen - reward of rejected), if a sequence's reward is
/// beta * (log-probability - reference's): Rafailov et al., "Direct Preference Optimization",
/// arXiv:2305.18290, equation 7.
Loss dpo_loss(const PairScores& scores, double beta);

/// nll - beta * log sigmoid(log odds(chosen) - log odds(rejected)), where nll is the mean over the
/// chosen sequence's tokens, odds = p / (1 - p), and p is exp of the mean of a sequence's
/// log-probabilities: Hong et al., "ORPO", arXiv:2403.07691, equations 3 to 7, with its lambda as
/// beta. Means larger than -1e-12 are replaced by that, as a certain sequence has no odds. A reward
/// is beta * the mean.
Loss orpo_loss(const PairScores& scores, double beta);

}  // namespace accrue::models
