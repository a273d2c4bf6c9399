#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "accrue/data/source.h"

namespace accrue::data {

/// Samples that a program makes itself.
struct OwnSamples {
  std::int64_t size = 0;  ///< how many there are
  /// Makes samples `indices`, a row of `inputs` (and of `targets` and `weights`, where these are
  /// defined) for each, in order. It is a pure function of the indices, which several threads call.
  std::function<batch::MicroBatch(std::span<const std::int64_t> indices)> fetch;
  /// Identifies the data: what a resumption compares. Not empty.
  std::string identity;
  std::int64_t tokens = 1;  ///< of each sample
  std::int64_t vocab = 0;   ///< classes or words that targets are of; 0: not told
};

/// Samples of the program's own as a source. Throws a usage Error where there are none, or no
/// identity; so do its fetches where a micro-batch does not have a row for each index.
std::shared_ptr<const Source> own_source(OwnSamples samples);

/// Samples that lie in memory: a row of `inputs` and of `targets` each; identified by their bytes.
/// Throws a usage Error where their numbers differ.
std::shared_ptr<const Source> tensor_source(at::Tensor inputs, at::Tensor targets);

}  // namespace accrue::data
