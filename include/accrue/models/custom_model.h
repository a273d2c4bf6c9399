#pragma once

#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/model.h"

namespace accrue::models {

/// A Trainable of a program's own as a Model: its files hold parameters and buffers by their names.
/// What floats is converted to the masters' dtype of `compute`, in the Trainable itself.
class CustomModel : public Model {
 public:
  /// Throws a usage Error where there is nothing to train, a name stands twice, tensors are on two
  /// devices, or `compute` is bf16, which is a matter of the Trainable's own layers.
  CustomModel(std::unique_ptr<Trainable> trainable, Compute compute);

  NamedParameters parameters() const override { return trainable_->parameters(); }
  std::vector<std::string> shared_parameters() const override {
    return trainable_->shared_parameters();
  }
  NamedParameters buffers() const override { return trainable_->buffers(); }
  std::vector<Segment> segments() override { return trainable_->segments(); }
  std::vector<LossHead> losses() override { return trainable_->losses(); }
  std::vector<ForeignLayer> foreign_layers() const override { return trainable_->foreign_layers(); }

  std::string kind() const override { return "custom"; }
  std::int64_t flops_per_sample() const override { return 0; }
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

 private:
  std::unique_ptr<Trainable> trainable_;
};

}  // namespace accrue::models
