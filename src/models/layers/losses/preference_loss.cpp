#include "models/layers/losses/preference_loss.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"
#include "kernels/operations.h"
#include "models/layers/losses/pair_losses.h"

namespace accrue::models {
namespace {

std::int64_t sequences_in(const batch::MicroBatch& micro) {
  return micro.spans.empty() ? micro.inputs.size(0) : std::ssize(micro.spans);
}

/// The sequence of each position, [R, T]; padding between packed ones belongs to none and gets the
/// number after the last.
at::Tensor sequence_of_positions(const batch::MicroBatch& micro) {
  const std::int64_t rows = micro.inputs.size(0), columns = micro.inputs.size(1);
  if (micro.spans.empty()) return at::arange(rows, at::kLong).unsqueeze(1).expand({rows, columns});
  const at::Tensor sequences = at::full({rows, columns}, sequences_in(micro), at::kLong);
  for (std::int64_t i = 0; i < std::ssize(micro.spans); ++i) {
    const SampleSpan& span = micro.spans[static_cast<std::size_t>(i)];
    sequences.select(0, span.row).slice(0, span.begin, span.end).fill_(i);
  }
  return sequences;
}

/// Sums of `values` [R, T], fp64, over each sequence. They are added in the order of positions, so
/// padding does not change a bit.
at::Tensor sums_of_sequences(const batch::MicroBatch& micro, const at::Tensor& values) {
  const std::int64_t sequences = sequences_in(micro);
  return at::zeros({sequences + 1}, at::kDouble)
      .index_add(0, sequence_of_positions(micro).reshape({-1}), values.reshape({-1}))
      .narrow(0, 0, sequences);
}

void expect_pairs(const batch::MicroBatch& micro, const std::string& operation) {
  const auto pairs = std::ssize(micro.sample_ids);
  if (micro.sequences_per_sample == 2 && sequences_in(micro) == 2 * pairs) return;
  throw usage_error(
      operation, "two sequences for each of the samples",
      std::to_string(sequences_in(micro)) + " sequences of " + std::to_string(pairs) + " samples",
      R"(lines with "prompt", "chosen" and "rejected", whose pairs stay whole)");
}

/// [P] fp64: 1, or the weight of both sequences of a pair.
at::Tensor pair_weights(const batch::MicroBatch& micro) {
  const std::int64_t pairs = sequences_in(micro) / 2;
  at::Tensor weights = at::ones({pairs}, at::kDouble);
  if (!micro.weights.defined()) return weights;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t chosen = 2 * pair;
    const SampleSpan place = micro.spans.empty() ? SampleSpan{.row = chosen}
                                                 : micro.spans[static_cast<std::size_t>(chosen)];
    weights[pair] = micro.weights[place.row][place.begin].to(at::kDouble);
  }
  return weights;
}

PairScores scores_of(TokenHead& head, const at::Tensor& hidden, const batch::MicroBatch& micro,
                     const ForwardContext& context) {
  const at::Tensor counted = micro.targets.ne(kernels::ignored_label).to(at::kDouble);
  return {
      .log_probabilities = sequence_log_probabilities(head, hidden, micro, context).view({-1, 2}),
      .lengths = sums_of_sequences(micro, counted).view({-1, 2}),
      .reference = micro.reference,
      .weights = pair_weights(micro)};
}

Loss loss_of_pairs(TokenHead& head, const at::Tensor& hidden, const batch::MicroBatch& micro,
                   const ForwardContext& context) {
  const LossKind kind = head.options.kind;
  const std::string operation = "loss.kind = \"" + std::string(to_string(kind)) + '"';
  expect_pairs(micro, operation);
  if (kind == LossKind::orpo)
    return orpo_loss(scores_of(head, hidden, micro, context), head.options.beta);
  if (!micro.reference.defined())
    throw usage_error(operation, "the log-probabilities of a reference", "none",
                      "taking them before the first step");
  return dpo_loss(scores_of(head, hidden, micro, context), head.options.beta);
}

}  // namespace

at::Tensor sequence_log_probabilities(TokenHead& head, const at::Tensor& hidden,
                                      const batch::MicroBatch& micro,
                                      const ForwardContext& context) {
  const at::Tensor of_tokens = kernels::operations_of(context).linear_log_probabilities(
      hidden, head.weight, micro.targets, head.prepared, {.soft_cap = head.soft_cap});
  return sums_of_sequences(micro, of_tokens);
}

at::Tensor sequence_log_probabilities(Trainable& model, TokenHead& head,
                                      const batch::MicroBatch& micro) {
  const at::NoGradGuard no_grad;
  const ForwardContext context = batch::evaluation_context(micro);
  const at::Tensor hidden = run_segments(model, micro, context).at(0);
  return sequence_log_probabilities(head, hidden, micro, context);
}

LossHead preference_loss(TokenHead* head) {
  LossHead loss{
      .name = std::string(to_string(head->options.kind)),
      .forward = [head](const Activations& hidden, const batch::MicroBatch& micro,
                        const ForwardContext& context,
                        double) { return loss_of_pairs(*head, hidden.at(0), micro, context); },
      .weight =
          [](const batch::MicroBatch& micro) { return pair_weights(micro).sum().item<double>(); },
      .measures = {std::string(accuracy_measure), "margin"}};
  if (head->options.kind == LossKind::orpo) loss.measures.emplace_back("nll");
  return loss;
}

}  // namespace accrue::models
