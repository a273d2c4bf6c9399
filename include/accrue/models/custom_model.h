#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/models/compute.h"
#include "accrue/models/model.h"

namespace accrue::models {

class ForeignPasses;  // src/models/foreign/foreign_passes.h

/// A program's Trainable as a Model: its files hold parameters and buffers by name. Floating-point
/// tensors are converted to the masters' dtype of `compute`, in the Trainable.
class CustomModel : public Model {
 public:
  /// In bf16, segments run under libtorch's autocasting, and their outputs are converted to fp32
  /// for the next segment and the losses; parameters and gradient sums stay fp32. Throws a usage
  /// Error if there is nothing to train, two tensors have the same name, or tensors are on two
  /// devices.
  CustomModel(std::unique_ptr<Trainable> trainable, Compute compute);
  ~CustomModel() override;

  NamedParameters parameters() const override { return trainable_->parameters(); }
  std::vector<std::string> shared_parameters() const override {
    return trainable_->shared_parameters();
  }
  NamedParameters buffers() const override { return trainable_->buffers(); }
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;
  std::vector<ForeignLayer> foreign_layers() const override;

  std::string kind() const override { return "custom"; }
  std::int64_t flops_per_sample() const override { return 0; }
  bool can_be_accelerated() const override { return true; }
  void accelerate(bool wanted) override;
  AcceleratedCalls accelerated_calls() const override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

 private:
  std::unique_ptr<Trainable> trainable_;
  std::unique_ptr<ForeignPasses> passes_;
};

}  // namespace accrue::models
