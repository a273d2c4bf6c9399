#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/models/model.h"

namespace accrue::proof::testing {

using Segments = std::vector<models::Segment>;
using LossHeads = std::vector<models::LossHead>;

/// A model with a fault that changes segments or losses. Without one it behaves like its model.
class ChangedModel final : public models::Model {
 public:
  struct Fault {
    std::function<void(Segments&)> segments = {};
    std::function<void(LossHeads&)> losses = {};
    /// Called with the model's parameters before each forward pass.
    std::function<void(const NamedParameters&, const batch::MicroBatch&)> before_pass = {};
    std::int64_t flops_per_sample = 0;  ///< the reported number; 0: the model's
  };

  ChangedModel(std::unique_ptr<models::Model> sound, Fault fault)
      : sound_(std::move(sound)), fault_(std::move(fault)) {}

  std::string kind() const override { return sound_->kind(); }
  std::int64_t flops_per_sample() const override {
    return fault_.flops_per_sample > 0 ? fault_.flops_per_sample : sound_->flops_per_sample();
  }
  NamedParameters file_tensors() const override { return sound_->file_tensors(); }
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override {
    sound_->load_file_tensors(tensors, origin);
  }
  NamedParameters parameters() const override { return sound_->parameters(); }
  std::vector<std::string> shared_parameters() const override {
    return sound_->shared_parameters();
  }
  NamedParameters buffers() const override { return sound_->buffers(); }
  std::vector<models::ForeignLayer> foreign_layers() const override {
    return sound_->foreign_layers();
  }
  Segments segments() override {
    Segments segments = sound_->segments();
    if (fault_.segments) fault_.segments(segments);
    if (fault_.before_pass) segments.front().forward = told_of(segments.front().forward);
    return segments;
  }
  LossHeads losses() override {
    LossHeads heads = sound_->losses();
    if (fault_.losses) fault_.losses(heads);
    return heads;
  }

 private:
  using Forward = decltype(models::Segment::forward);
  Forward told_of(Forward sound) {
    return [sound = std::move(sound), told = fault_.before_pass, parameters = parameters()](
               const models::Activations& x, const batch::MicroBatch& micro,
               const ForwardContext& context) {
      told(parameters, micro);
      return sound(x, micro, context);
    };
  }

  std::unique_ptr<models::Model> sound_;
  Fault fault_;
};

}  // namespace accrue::proof::testing
