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
  /// The name that model.kind has for it.
  virtual std::string kind() const = 0;
  /// Arithmetic that forward and backward of one sample (a full context, an image) need,
  /// recomputation not counted: a multiplication and its addition are two operations, and the pairs
  /// that a causal mask leaves out are none. 0 if it is not known. What `accrue bench` calls
  /// model_gflops is this per second.
  virtual std::int64_t flops_per_sample() const = 0;
  /// What pack_weights(true) takes at most, in bytes, padding apart; 0 if it does nothing.
  virtual std::int64_t packed_weight_bytes() const { return 0; }
  /// Whether products read weights in layouts that are made once per window
  /// (kernels::PreparedWeight::pack): faster, for memory. At first they do not.
  virtual void pack_weights(bool /*wanted*/) {}
  /// Whether accrue may do the operations of this model, because they are not its own.
  virtual bool can_be_accelerated() const { return false; }
  /// From now on training passes run as under accrue::accelerate() (kernels/accelerate.h), with
  /// dropout keyed by sample, or as they are written; at first as written, in evaluation always. A
  /// pass by plain operations (ForwardContext::operations) has accrue's masks alone. Throws what
  /// Accelerated throws; does nothing if it cannot be.
  virtual void accelerate(bool /*wanted*/) {}
  /// What accrue has done of all passes so far.
  virtual AcceleratedCalls accelerated_calls() const { return {}; }
  /// Parameters and buffers by the names and in the layout of files (model.safetensors).
  virtual NamedParameters file_tensors() const = 0;
  /// Copies such tensors in, one after the other, through at most one temporary of a tensor's size.
  /// `origin` names them in errors; throws a usage Error naming the first that is missing, extra or
  /// misshapen, and changes nothing then.
  virtual void load_file_tensors(const StoredTensors& tensors, const std::string& origin) = 0;
  void load_file_tensors(const NamedParameters& tensors, const std::string& origin) {
    load_file_tensors(stored(tensors), origin);
  }
};

}  // namespace accrue::models
