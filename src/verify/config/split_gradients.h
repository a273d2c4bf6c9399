#pragma once

#include <optional>
#include <string>
#include <variant>

#include "train/plan/setup.h"
#include "verify/config/config_subject.h"
#include "verify/split.h"

namespace accrue::proof {

/// A window's gradient by one of training's methods.
struct SplitGradients {
  Split split;
  Gradients gradients;
};

/// "2 ranks, micro-batches of 4", with the window split by `micro`.
Split split_of_ranks(const train::Workload& work, std::int64_t ranks, std::int64_t micro);

/// The window's gradients by ranks that share it, or by the stages of a pipeline; or the reason why
/// that is skipped.
std::variant<Gradients, std::string> by_ranks(ConfigSubject& subject, const train::Workload& work,
                                              std::int64_t ranks,
                                              const train::MicroDecision& micro);

}  // namespace accrue::proof
