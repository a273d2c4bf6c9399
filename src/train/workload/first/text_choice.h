#pragma once

#include <cstdint>
#include <string>

#include "train/workload/first/data_facts.h"

namespace accrue::train {

/// How a language model is to be trained. All functions here are pure.
struct TextChoice {
  std::int64_t layers = 0, heads = 0, width = 0;  ///< 0 if the model has its own shape
  std::int64_t context = 0;
  std::int64_t batch = 0;  ///< input tokens of an optimizer step
  std::int64_t steps = 0;
  double lr = 0;
  std::string lr_why;
  std::int64_t adapter_rank = 0;  ///< 0: all weights are trained
};

/// For a model with random weights and `tokens` to train on. Throws a usage Error if they are too
/// few.
TextChoice choice_from_nothing(const DataFacts& data, std::int64_t tokens);

/// For training that continues from a model: few passes, small steps. An adapter is trained if the
/// weights are so large that sums and moments of all of them would take too much memory, or as
/// `adapter` states. Throws a usage Error if tokens are too few.
TextChoice choice_from_model(const DataFacts& data, std::int64_t tokens,
                             std::optional<bool> adapter);

/// Steps of about four passes over the data: more passes for little data, fewer for
/// much.
std::int64_t steps_for(double per_epoch);

}  // namespace accrue::train
