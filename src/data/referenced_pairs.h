#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// What a reference model makes of pairs.
struct Reference {
  /// Identifies the model and all that the numbers depend on besides the pairs; part of the
  /// fingerprint.
  std::string key;
  /// Log-probabilities of the chosen and the rejected sequence of each pair, in order. Empty: they
  /// are not known yet, and 0 stands for them where only shapes and times matter.
  std::vector<double> log_probabilities = {};
  std::vector<std::string> remarks = {};  ///< Source::remarks() of the reference
};

/// `pairs` with their reference, which fetch() gives besides (MicroBatch::reference). Throws a
/// usage Error if the numbers are not two for each pair.
std::unique_ptr<Source> with_reference(std::shared_ptr<const Source> pairs, Reference reference);

}  // namespace accrue::data
