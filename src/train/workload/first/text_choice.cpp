#include "train/workload/first/text_choice.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

TextChoice shape_for(std::int64_t tokens) {
  constexpr std::int64_t kSmall = 3'000'000, kMiddle = 50'000'000;
  if (tokens < kSmall)
    return {.layers = 4, .heads = 4, .width = 128, .context = 128, .batch = 1024, .lr = 2e-3};
  if (tokens < kMiddle)
    return {.layers = 6, .heads = 4, .width = 256, .context = 256, .batch = 4096, .lr = 1e-3};
  return {.layers = 8, .heads = 8, .width = 512, .context = 512, .batch = 8192, .lr = 6e-4};
}

/// Halves the batch until it is at most a tenth of the data, or one sample.
void shrink_batch(TextChoice& choice, std::int64_t tokens) {
  constexpr std::int64_t kBatches = 10;
  while (choice.batch * kBatches > tokens && choice.batch > choice.context) choice.batch /= 2;
  choice.batch = std::max(choice.batch, choice.context);
}

/// Halves context and batch until they fit a stream of `tokens`.
void fit_to_stream(TextChoice& choice, std::int64_t tokens) {
  constexpr std::int64_t kLeastContext = 8, kSamples = 40;
  while (choice.context * kSamples > tokens && choice.context > kLeastContext) choice.context /= 2;
  if (choice.context * kSamples > tokens)
    throw usage_error(
        "choose a config",
        "at least " + std::to_string(kLeastContext * kSamples) + " tokens to train on",
        std::to_string(tokens), "more data");
  shrink_batch(choice, tokens);
}

/// The samples are lines: none is longer than the context, and short ones share rows.
std::int64_t context_of_lines(const DataFacts& data) {
  constexpr std::int64_t kMultiple = 32;
  return (data.longest + kMultiple - 1) / kMultiple * kMultiple;
}

}  // namespace

std::int64_t steps_for(double per_epoch) {
  constexpr double kPasses = 4, kMostPasses = 40, kLeast = 1000, kMost = 5000;
  const double steps = std::clamp(kPasses * per_epoch, kLeast, kMost);
  return std::max<std::int64_t>(20, std::llround(std::min(steps, kMostPasses * per_epoch)));
}

TextChoice choice_from_nothing(const DataFacts& data, std::int64_t tokens) {
  TextChoice choice = shape_for(tokens);
  fit_to_stream(choice, tokens);
  if (data.has_lines()) {
    choice.context = context_of_lines(data);
    choice.batch = std::max(choice.batch, choice.context);
  }
  choice.lr_why = "usual for this width; halve it where the loss jumps";
  choice.steps = steps_for(static_cast<double>(tokens) / static_cast<double>(choice.batch));
  return choice;
}

TextChoice choice_from_model(const DataFacts& data, std::int64_t tokens,
                             std::optional<bool> adapter) {
  constexpr std::int64_t kContext = 512, kBatch = 4096, kRank = 16, kFew = 2'000'000;
  constexpr std::int64_t kLarge = 400'000'000, kMiddle = 100'000'000;  // bytes of weights
  constexpr std::int64_t kLeastSteps = 20, kMostSteps = 5000;
  TextChoice choice{.context = data.has_lines() ? context_of_lines(data) : kContext};
  if (data.model.context > 0) choice.context = std::min(choice.context, data.model.context);
  choice.batch = std::max(kBatch, choice.context);
  data.has_lines() ? shrink_batch(choice, tokens) : fit_to_stream(choice, tokens);
  if (!data.has_lines()) choice.batch -= choice.batch % choice.context;

  if (adapter.value_or(data.model.bytes >= kLarge)) {
    choice.adapter_rank = kRank;
    choice.lr = 2e-4;
    choice.lr_why = "usual for adapters, which begin at nothing";
  } else {
    choice.lr = data.model.bytes >= kMiddle ? 2e-5 : 1e-4;
    choice.lr_why = "small, as the weights are trained already";
  }
  const double passes = tokens < kFew ? 3 : 1;
  const double steps = passes * static_cast<double>(tokens) / static_cast<double>(choice.batch);
  choice.steps = std::clamp<std::int64_t>(std::llround(steps), kLeastSteps, kMostSteps);
  return choice;
}

}  // namespace accrue::train
