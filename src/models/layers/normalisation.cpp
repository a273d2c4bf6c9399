#include "accrue/models/normalisation.h"

#include <algorithm>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

constexpr std::int64_t most_groups = 32;
constexpr std::int64_t fewest_channels_per_group = 4;

std::int64_t divisor_up_to(std::int64_t channels, std::int64_t most) {
  std::int64_t groups = std::max<std::int64_t>(1, std::min(channels, most));
  while (channels % groups != 0) --groups;
  return groups;
}

std::string first_name(const BatchNorms& found) {
  return found.cut.empty() ? found.uncut.front().name : found.cut.front();
}

std::string counted(const BatchNorms& found) {
  const std::size_t count = found.cut.size() + found.uncut.size();
  return std::to_string(count) +
         (count == 1 ? " batch normalisation (" : " batch normalisations (the first is ") +
         first_name(found) + ')';
}

/// If a model runs as a whole, its layers cannot be cut apart or replaced.
constexpr const char* what_uncut_ones_leave =
    "model.batchnorm = \"micro\" (each micro-batch by itself: another gradient), or the model "
    "saved with "
    "group normalisation in their place";

void refuse_uncut(const BatchNorms& found) {
  if (found.uncut.empty()) return;
  throw usage_error(
      "model.batchnorm \"exact\"", "batch normalisations at which the model can be cut",
      found.uncut.front().name + ": " + found.uncut.front().reason, what_uncut_ones_leave);
}

Error not_converted(const BatchNorms& found) {
  return usage_error(
      "convert batch normalisations",
      "a model made without them, or a torch::nn::Sequential with them among its "
      "own modules",
      counted(found),
      found.uncut.empty() ? "model.batchnorm = \"exact\" or \"micro\"" : what_uncut_ones_leave);
}

}  // namespace

std::int64_t groups_of(Norm norm, std::int64_t channels) {
  switch (norm) {
    case Norm::group:
      return divisor_up_to(channels, std::min(most_groups, channels / fewest_channels_per_group));
    case Norm::layer:
      return 1;
    case Norm::instance:
      return channels;
    case Norm::batch:
      break;
  }
  throw usage_error("groups of a norm", "group, layer or instance", "batch",
                    "another model.batchnorm");
}

Norm norm_of(BatchNormPolicy policy) {
  switch (policy) {
    case BatchNormPolicy::convert_group:
      return Norm::group;
    case BatchNormPolicy::convert_layer:
      return Norm::layer;
    case BatchNormPolicy::convert_instance:
      return Norm::instance;
    case BatchNormPolicy::error:
    case BatchNormPolicy::exact:
    case BatchNormPolicy::micro:
      break;
  }
  return Norm::batch;
}

BatchNorms find_batch_norms(Trainable& model) {
  BatchNorms found;
  for (const Segment& segment : model.segments())
    for (const BatchNormSite& site : segment.batch_norms) found.cut.push_back(site.layer.name);
  for (const ForeignLayer& layer : model.foreign_layers())
    if (layer.kind == ForeignLayer::Kind::batch_norm) found.uncut.push_back(layer);
  return found;
}

void check_batch_norms(Trainable& model, BatchNormPolicy policy) {
  if (policy == BatchNormPolicy::micro) return;
  const BatchNorms found = find_batch_norms(model);
  if (found.none()) return;
  if (policy == BatchNormPolicy::exact) return refuse_uncut(found);
  if (policy != BatchNormPolicy::error) throw not_converted(found);
  throw usage_error(
      "train a model with batch normalisation",
      "a choice, since its statistics over a micro-batch are not those of the full batch",
      counted(found),
      !found.uncut.empty()
          ? what_uncut_ones_leave
          : "model.batchnorm = \"exact\" (the full batch's, at the cost of a second forward pass), "
            "convert-group, convert-layer or convert-instance (another norm), or micro (each "
            "micro-batch by itself: another gradient)");
}

}  // namespace accrue::models
