#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "distributed/compress/compression.h"

namespace accrue::distributed {

/// Shared by compressors with error feedback: this rank's error of the last sum, in that window's
/// unit, and the state for a checkpoint: "kept" [elements], "unit", and the shared tensors.
class FeedbackCompressor : public Compressor {
 public:
  CompressedSum sum(const at::Tensor& values, double unit, Exchange& exchange) final;
  NamedParameters state(Exchange& exchange) const final;
  void load_state(const StoredTensors& state, std::int64_t rank) final;

  const at::Tensor& residual() const { return residual_; }

 protected:
  FeedbackCompressor(std::string name, std::int64_t elements, std::int64_t world);

  /// The sum of `values`, to which this rank's error is already added. `conversion` converts what
  /// else is kept to this window's unit. Implementations write what is kept, residual() included,
  /// only if the sum is finite.
  virtual CompressedSum sum_corrected(const at::Tensor& values, double conversion,
                                      Exchange& exchange) = 0;

  /// Adds what this rank keeps besides residual() to `kept` [elements].
  virtual void add_kept(const at::Tensor& kept, std::int64_t rank) const;
  /// Takes this rank's part of `kept` [elements], which all ranks keep together.
  virtual void take_kept(const at::Tensor& kept, std::int64_t rank);

  /// Adds a tensor to the state that is the same on every rank.
  void share(const std::string& name, const at::Tensor& tensor) {
    shared_.push_back({name, tensor});
  }
  std::int64_t elements() const { return residual_.numel(); }
  std::int64_t world() const { return world_; }
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const;

 private:
  std::string operation() const;
  void require(const at::Tensor& values, double unit, const Exchange& exchange) const;

  std::string name_;
  std::int64_t world_;
  at::Tensor residual_;  ///< [elements]: error of this rank's last sum
  at::Tensor unit_;      ///< of the state's window, fp64; 0 before the first
  NamedParameters shared_;
};

}  // namespace accrue::distributed
