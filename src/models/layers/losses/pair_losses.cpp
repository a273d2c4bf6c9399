#include "models/layers/losses/pair_losses.h"

#include <ATen/ATen.h>

namespace accrue::models {
namespace {

at::Tensor chosen_less_rejected(const at::Tensor& of_pairs) {
  return of_pairs.select(1, 0) - of_pairs.select(1, 1);
}

double weighted_sum(const PairScores& scores, const at::Tensor& values) {
  return (scores.weights * values.detach()).sum().item<double>();
}

/// `losses` and `margins` of the pairs as a sum over them, with the reported measures.
Loss sum_over_pairs(const PairScores& scores, const at::Tensor& losses, const at::Tensor& margins) {
  return {
      .sum = (scores.weights * losses).sum(),
      .weight = scores.weights.sum().item<double>(),
      .measures = {weighted_sum(scores, margins.detach().gt(0)), weighted_sum(scores, margins)}};
}

/// log(p / (1 - p)) of p = exp(mean).
at::Tensor log_odds(const at::Tensor& means) {
  constexpr double most = -1e-12;
  const at::Tensor capped = means.clamp_max(most);
  return capped - at::log(-at::expm1(capped));
}

}  // namespace

Loss dpo_loss(const PairScores& scores, double beta) {
  const at::Tensor margins =
      beta * chosen_less_rejected(scores.log_probabilities - scores.reference);
  return sum_over_pairs(scores, -at::log_sigmoid(margins), margins);
}

Loss orpo_loss(const PairScores& scores, double beta) {
  const at::Tensor means = scores.log_probabilities / scores.lengths;
  const at::Tensor nll = -means.select(1, 0);
  const at::Tensor preference = -at::log_sigmoid(chosen_less_rejected(log_odds(means)));
  Loss loss = sum_over_pairs(scores, nll + beta * preference, beta * chosen_less_rejected(means));
  loss.measures.push_back(weighted_sum(scores, nll));
  return loss;
}

}  // namespace accrue::models
