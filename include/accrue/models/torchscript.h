#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accrue/models/compute.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"
#include "accrue/models/script_loss.h"

namespace accrue::models {

struct TorchScriptOptions {
  std::filesystem::path file;       ///< written by torch.jit.save
  Compute compute = Compute::fp32;  ///< fp32 or fp64: parameters are converted; bf16: of fp32
  LossOptions loss = {};
  /// The losses of the outputs of forward; empty: one, the cross-entropy of its only tensor against
  /// the labels.
  std::vector<ScriptLoss> heads = {};
  /// The method that computes the loss; empty: forward and `heads` define it.
  std::string method = {};
  /// Called with the digest of the file's bytes (TorchScriptModel::digest()) before any of its code
  /// runs; an exception refuses the file. Empty: every file is loaded.
  std::function<void(const std::string& digest)> admit = {};
};

/// A scripted or traced module as one segment. The tensors for its method are selected by argument
/// name: the column of that name (MicroBatch::columns), or else micro.inputs for the first argument
/// (token ids [B, T] int64, or images [B, C, H, W]), micro.targets for "labels", and defaults for
/// others. Floating-point tensors are converted to the parameters' dtype.
///
/// Without `method`, forward returns a tensor, or several in a tuple, NamedTuple or dict; each of
/// `heads` compares one with a target: logits [..., K] for classes [...], or values.
///
/// With `method`, that method returns its loss as (sum, weight): a scalar tensor, the sum over its
/// terms, and their number; or several, as a dict or NamedTuple of such pairs, named in `heads`.
/// The method NAME_weights must then return the number of terms per name from the labels, since the
/// weights of a batch are needed before its first backward pass.
///
/// Batch normalisation and dropout in its graph are found by their operators and reported
/// (foreign_layers()): they cannot be cut, and dropout is keyed by sample only if accrue runs the
/// module's operations (Model::accelerate). Other random numbers come from libtorch's generator,
/// which a pass seeds from (seed, window, first sample id) and restores. TorchScript's optimizer is
/// off: it would differentiate parts of the graph itself, without the parameters.
///
/// In bf16 it runs under libtorch's autocasting, and its logits are converted to fp32; parameters
/// and gradient sums stay fp32. TorchScript's own autocasting is not changed.
///
/// Parameters are made contiguous. Exceptions in the module are rethrown unchanged (running out of
/// memory is distinguished), without TorchScript's trace: a setting of the whole process.
class TorchScriptModel : public Model {
 public:
  /// Throws a usage Error naming the file if it does not load, has an unsupported signature (with
  /// the signature found, and a suggestion), has no trainable parameters, or if an option is out of
  /// range.
  explicit TorchScriptModel(const TorchScriptOptions& options);
  ~TorchScriptModel() override;

  NamedParameters parameters() const override;
  NamedParameters buffers() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;
  std::vector<ForeignLayer> foreign_layers() const override;

  std::string kind() const override { return "torchscript"; }
  std::int64_t flops_per_sample() const override { return 0; }
  bool can_be_accelerated() const override { return true; }
  void accelerate(bool wanted) override;
  AcceleratedCalls accelerated_calls() const override;
  /// The tensors by the module's names.
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  bool contains_batch_norm() const;
  bool contains_dropout() const;

  /// "sha256:" and 64 hexadecimal digits of the loaded bytes: the file is read only once, so a file
  /// that replaces it during loading has no effect.
  const std::string& digest() const;

  /// Saves the module with its current values, for torch.jit.load.
  void save(const std::filesystem::path& file) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
