#pragma once

#include <memory>
#include <string>

#include "accrue/core/parameter.h"

namespace accrue::proof {

/// Checks parameters and gradient sums whenever a backward reaches a parameter.
class LoopWatch {
 public:
  explicit LoopWatch(const NamedParameters& parameters);
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

  struct Seen {
    std::int64_t before = -1;  ///< the backward (from 0) that found it; -1: none
    std::string parameter;
  };
  /// A parameter that differed from its value at its first backward.
  const Seen& stepped() const;
  /// A sum that had contributions, and was undefined or zero.
  const Seen& zeroed() const;
  /// Whether any `.grad` held a sum when a backward arrived: a loop may keep its sums elsewhere.
  bool saw_sums() const;
  /// Whether a backward reached any parameter.
  bool saw_backward() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the hooks
};

}  // namespace accrue::proof
