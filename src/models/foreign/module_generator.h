#pragma once

#include <optional>

#include "accrue/core/forward_context.h"
#include "support/snapshot.h"

namespace accrue::models {

/// Seeds libtorch's CPU generator from (seed, window, first sample id, site) while it exists, and
/// restores its former state. So a module that draws from it makes the same draws when its
/// micro-batch is run again. It does nothing in evaluation.
class ModuleGenerator {
 public:
  ModuleGenerator(const ForwardContext& context, std::uint64_t site);

 private:
  std::optional<Keep<GeneratorSnapshot>> before_;
};

}  // namespace accrue::models
