#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "accrue/dist/compression.h"

namespace accrue::dist {

/// What compressors with error feedback share: this rank's error of the last sum, in that window's
/// unit, and the state that a checkpoint takes.
class FeedbackCompressor : public Compressor {
 public:
  CompressedSum sum(const at::Tensor& values, double unit, Exchange& exchange) final;
  NamedParameters state() const final { return state_; }
  void load_state(const StoredTensors& state) final;

 protected:
  FeedbackCompressor(std::string name, std::int64_t elements, std::int64_t world);

  /// The sum of `values`, to which this rank's error is added already. `conversion` brings what
  /// else is kept to this window's unit. To write what is kept only where the sum is finite, and
  /// then residual() too.
  virtual CompressedSum sum_corrected(const at::Tensor& values, double conversion,
                                      Exchange& exchange) = 0;

  /// A further tensor of the state.
  void keep(const std::string& name, const at::Tensor& tensor) { state_.push_back({name, tensor}); }
  const at::Tensor& residual() const { return residual_; }
  std::int64_t elements() const { return residual_.numel(); }
  std::int64_t world() const { return world_; }
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const;

 private:
  std::string operation() const;
  void require(const at::Tensor& values, double unit, const Exchange& exchange) const;

  std::string name_;
  std::int64_t world_;
  at::Tensor residual_;  ///< [elements]
  at::Tensor unit_;      ///< of the window that the state comes from, fp64; 0 before the first
  NamedParameters state_;
};

}  // namespace accrue::dist
