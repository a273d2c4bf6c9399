#pragma once

#include <cstdint>
#include <string>

#include "accrue/core/stored_tensor.h"
#include "accrue/kernels/accelerate.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// A Trainable that the command line makes from a config, checkpoints and loads.
class Model : public Trainable {
 public:
  /// The name of the model in model.kind.
  virtual std::string kind() const = 0;
  /// The operations that forward and backward of one sample (a full context, an image) need,
  /// without recomputation: a multiplication and its addition are two operations, and pairs
  /// excluded by a causal mask do not count. 0 if unknown. `accrue bench` reports this per second
  /// as model_gflops.
  virtual std::int64_t flops_per_sample() const = 0;
  /// The most bytes that pack_weights(true) takes, without padding; 0 if it does nothing.
  virtual std::int64_t packed_weight_bytes() const { return 0; }
  /// Sets whether products read weights in layouts that are made once per window
  /// (kernels::PreparedWeight::pack): faster, but with more memory. Off at first.
  virtual void pack_weights(bool /*wanted*/) {}
  /// Whether accrue may run the operations of this model, because they are not accrue's.
  virtual bool can_be_accelerated() const { return false; }
  /// Sets whether training passes run under accrue::accelerate() (kernels/accelerate.h), with
  /// dropout keyed by sample, or as written. At first, and always in evaluation, they run as
  /// written. A pass by plain operations (ForwardContext::operations) only has accrue's masks.
  /// Throws the errors of Accelerated. Does nothing if the model cannot be accelerated.
  virtual void accelerate(bool /*wanted*/) {}
  /// The operations that accrue has run in all passes so far.
  virtual AcceleratedCalls accelerated_calls() const { return {}; }
  /// Parameters and buffers with the names and layout of files (model.safetensors).
  virtual NamedParameters file_tensors() const = 0;
  /// Copies such tensors in, one after the other, through at most one temporary of a tensor's size.
  /// `origin` names them in errors. Throws a usage Error naming the first tensor that is missing,
  /// extra or misshapen, and then changes nothing.
  virtual void load_file_tensors(const StoredTensors& tensors, const std::string& origin) = 0;
  void load_file_tensors(const NamedParameters& tensors, const std::string& origin) {
    load_file_tensors(stored(tensors), origin);
  }
};

}  // namespace accrue::models
