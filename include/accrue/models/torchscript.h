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
  /// The losses of what forward returns; empty: one, the cross-entropy of its only tensor against
  /// the labels.
  std::vector<ScriptLoss> heads = {};
  /// The method that makes the loss itself; empty: none does.
  std::string method = {};
  /// Told the digest of the file's bytes (TorchScriptModel::digest()) before any of its code runs;
  /// what it throws refuses them. Empty: whatever the file holds is loaded.
  std::function<void(const std::string& digest)> admit = {};
};

/// A scripted or traced module as one segment. Its method takes tensors by the names of its
/// arguments: each is the column of that name (MicroBatch::columns); else the first is micro.inputs
/// (token ids [B, T] int64, or images [B, C, H, W]), "labels" is micro.targets, and others keep
/// their defaults. What floats comes in the parameters' dtype.
///
/// Without `method`, forward returns a tensor, or several in a tuple, NamedTuple or dict, and each
/// of `heads` is a loss of one against a target: logits [..., K] for classes [...], or values.
///
/// With it, that method returns its loss as (sum, weight): a scalar tensor, the sum over its terms,
/// and how many there are. Or several by name, a dict or NamedTuple of these, named in `heads`; the
/// method NAME_weights, which returns a number for each name, then counts their terms from the
/// labels, as a batch's weights are needed before its first backward pass.
///
/// Batch normalisation and dropout in its graph are found by their operators and reported
/// (foreign_layers()): they cannot be cut, and dropout is keyed by sample only if accrue does
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
  /// which was found, and what to write), or no parameters to train, and where the options are out
  /// of range.
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
  /// The tensors by the module's own names.
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  bool contains_batch_norm() const;
  bool contains_dropout() const;

  /// "sha256:" and 64 hexadecimal digits of the bytes that were loaded: the file is read once, so
  /// that a file which takes its place meanwhile has no part in it.
  const std::string& digest() const;

  /// The module with its present values, as torch.jit.load reads it.
  void save(const std::filesystem::path& file) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
