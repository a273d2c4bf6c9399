#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// A reference model's results for pairs.
struct Reference {
  /// Identifies the model and everything else except the pairs that the numbers depend on; part of
  /// the fingerprint.
  std::string key;
  /// Log-probabilities of the chosen and the rejected sequence of each pair, in order. Empty: not
  /// known yet; 0 replaces them where only shapes and times matter.
  std::vector<double> log_probabilities = {};
  std::vector<std::string> remarks = {};  ///< Source::remarks() of the reference
};

/// `pairs` with their reference, which fetch() adds (MicroBatch::reference). Throws a usage Error
/// if there are not two numbers for each pair.
std::unique_ptr<Source> with_reference(std::shared_ptr<const Source> pairs, Reference reference);

}  // namespace accrue::data
