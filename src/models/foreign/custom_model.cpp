#include "accrue/models/custom_model.h"

#include <ATen/ATen.h>

#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/freeze.h"
#include "models/files/tensors/named_tensors.h"
#include "models/foreign/foreign_passes.h"
#include "models/foreign/kept_dtypes.h"
#include "models/layers/compute_dtypes.h"

namespace accrue::models {
namespace {

constexpr const char* take_model = "train a model of the program's own";

void check_names(const NamedParameters& tensors) {
  std::set<std::string> names;
  for (const NamedParameter& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw usage_error(take_model, "parameters and buffers with names of their own",
                        "'" + tensor.name + "' twice", "another name for one of them");
}

void check_device(const NamedParameters& tensors) {
  for (const NamedParameter& tensor : tensors)
    if (tensor.tensor.device() != tensors.front().tensor.device())
      throw usage_error(take_model, "parameters and buffers on one device",
                        "'" + tensors.front().name + "' on " +
                            tensors.front().tensor.device().str() + " and '" + tensor.name +
                            "' on " + tensor.tensor.device().str(),
                        "model->to(device) before it is handed over");
}

void check(const Trainable& trainable) {
  NamedParameters tensors = trainable.parameters();
  expect_trainable_dtypes(tensors, trainable.buffers(), take_model);
  if (trained_parameter_count(trainable) == 0)
    throw usage_error(take_model, "a parameter that wants a gradient",
                      tensors.empty() ? "no parameters" : "all of them frozen",
                      "register_module() and register_parameter() for what the model is made of");
  for (const NamedParameter& buffer : trainable.buffers()) tensors.push_back(buffer);
  check_names(tensors);
  check_device(tensors);
}

}  // namespace

CustomModel::CustomModel(std::unique_ptr<Trainable> trainable, Compute compute)
    : trainable_(std::move(trainable)), passes_(std::make_unique<ForeignPasses>(compute)) {
  check(*trainable_);
  convert_floating(trainable_->parameters(), master_dtype(compute));
  convert_floating(trainable_->buffers(), master_dtype(compute));
}

CustomModel::~CustomModel() = default;

std::vector<Segment> CustomModel::segments() { return passes_->of(trainable_->segments()); }
std::vector<LossHead> CustomModel::losses() { return passes_->of(trainable_->losses()); }

std::vector<ForeignLayer> CustomModel::foreign_layers() const {
  return passes_->beyond_reach(trainable_->foreign_layers());
}

void CustomModel::accelerate(bool wanted) { passes_->accelerate(wanted, trainable_->parameters()); }
AcceleratedCalls CustomModel::accelerated_calls() const { return passes_->calls(); }

NamedParameters CustomModel::file_tensors() const {
  return file_tensors_of(trainable_->parameters(), trainable_->buffers());
}

void CustomModel::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  copy_by_name(file_tensors(), tensors, origin, "the tensors of this program's model");
}

}  // namespace accrue::models
