#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The contributions of micro-batches to a window, as plain data that processes may exchange by any
/// means. Sums of parts of a window add up, element by element, to those of the whole.
struct WindowSums {
  double loss_sum = 0;
  double weight = 0;  ///< 0: nothing counted, and there are no gradients
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;
  std::int64_t quarantined = 0;
  /// Sums of the parameters that were used, as accum::GradientBuffer::saved_sum() has them: int64
  /// units if precision.accumulate is "fixed".
  NamedParameters gradients;
  std::vector<std::int64_t> contributions;  ///< to each of these sums
  /// accum::GradientBuffer::units() of the window. Only sums in equal units can be added.
  std::vector<int> units;
};

/// The part of a model's shape that data determine. Processes that train one model together agree
/// on it.
struct DataShape {
  std::int64_t vocab = 0;            ///< of tokens, or the number of classes
  std::vector<std::int64_t> image;   ///< channels, height and width; empty: no images
  std::vector<std::string> classes;  ///< their names, if the data have them
  bool operator==(const DataShape&) const = default;
};

/// Throws a usage Error that names the key if the sums of such a window would depend on more than
/// parameters, samples and units, or could not be added up by their elements.
void expect_exchangeable_sums(const Workload& work);

/// The keys of a config on which sums depend besides data and parameters, if they differ from the
/// defaults, each with its value: those of model, loss and precision, the seed and the order
/// of samples. Processes that train one model together agree on them.
std::vector<std::pair<std::string, std::string>> keys_of_sums(const Config& config);
/// A digest of the parameters that are not trained; empty if all are.
std::string digest_of_frozen(const models::Trainable& model);

/// Copies `values` into the parameters that are trained. Throws a usage Error that names the first
/// that is missing, not one of them, not finite, or of another shape or dtype; nothing is changed
/// then.
void load_trained(const models::Trainable& model, const NamedParameters& values);

}  // namespace accrue::train
