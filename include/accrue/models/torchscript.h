#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"

namespace accrue::models {

struct TorchScriptOptions {
  std::filesystem::path file;       ///< written by torch.jit.save
  Compute compute = Compute::fp32;  ///< fp32 or fp64: parameters are converted; bf16: of fp32
  LossOptions loss = {};
};

/// A scripted or traced module as one segment. Its forward takes one tensor, micro.inputs (token
/// ids [B, T] int64, or images [B, C, H, W] in the parameters' dtype; further arguments must have
/// defaults), and returns one: logits [..., V] for targets [...], so [B, K] for classes or [B, T,
/// V] for tokens. The loss is cross-entropy, as ResNet's.
///
/// Batch normalisation and dropout in its graph are found by their operators and reported
/// (foreign_layers()): they cannot be cut, and dropout is keyed by sample only where accrue does
/// the module's operations (Model::accelerate). Other draws come from libtorch's generator, which a
/// pass seeds from (seed, window, first sample id) and restores. Its graph runs as it is written:
/// libtorch's optimising executor differentiates parts of it by itself, without the parameters.
///
/// In bf16 it runs as under libtorch's autocasting, and its logits are widened to fp32; parameters
/// stay fp32, and so do the sums of their gradients. TorchScript's own autocasting is left alone.
///
/// Parameters are made contiguous. What is thrown in the module comes out as it was (memory that
/// runs out is told apart), without TorchScript's own trace: a setting of the whole process.
class TorchScriptModel : public Model {
 public:
  /// Throws a usage Error naming the file where it does not load, has another signature (saying
  /// which was found) or no parameters to train, and where the options are out of range.
  explicit TorchScriptModel(const TorchScriptOptions& options);
  ~TorchScriptModel() override;

  NamedParameters parameters() const override;
  NamedParameters buffers() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;
  std::vector<ForeignLayer> foreign_layers() const override;

  std::string kind() const override { return "torchscript"; }
  std::int64_t flops_per_sample() const override { return 0; }
  /// The tensors by the module's own names.
  bool can_be_accelerated() const override { return true; }
  void accelerate(bool wanted) override;
  AcceleratedCalls accelerated_calls() const override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  bool contains_batch_norm() const;
  bool contains_dropout() const;

  /// The module with its present values, as torch.jit.load reads it.
  void save(const std::filesystem::path& file) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
