#pragma once

#include <cstdint>
#include <memory>

#include "accrue/models/adapter_options.h"
#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/language_model.h"
#include "accrue/models/loss_options.h"

namespace accrue::models {

struct Gpt2Options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;    ///< a multiple of `heads`
  std::int64_t ffn_width = 0;  ///< of the feed-forward part; 0: 4 * width
  std::int64_t context = 1024;
  std::int64_t vocab = 50'257;
  double norm_eps = 1e-5;
  double dropout = 0;
  LossOptions loss = {};
  /// Whether the loss is computed in chunks of rows, instead of from complete logits.
  bool fused_loss = true;
  Compute compute = Compute::fp32;  ///< bf16 is mixed: masters and the residual stream in fp32
  std::uint64_t seed = 1337;        ///< of the initialisation
  AdapterOptions adapters = {};

  /// The width of the feed-forward part.
  std::int64_t inner_width() const { return ffn_width == 0 ? 4 * width : ffn_width; }
};

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm,
/// learned positions, tanh GELU, the head tied to the token embedding. Parameters have the names of
/// Hugging Face's GPT2LMHeadModel ("transformer.wte.weight", ...), but matrices are stored as
/// [out, in]; gpt2_io.h transposes them in safetensors. Initialised like GPT-2: N(0, 0.02), output
/// projections of a block by 0.02 / sqrt(2 * layers), biases 0 and norms 1, keyed by parameter
/// name, so the values do not depend on the order of creation. An fp64 model has the values of the
/// fp32 model.
///
/// Segments: "embed", "block.0" ... "block.<layers-1>" (residual stream to residual stream), "head"
/// (the last norm). Dropout sites (kernels/dropout.h): 0 after the embedding; in block i 1 + 3i in
/// the attention probabilities, 2 + 3i after the attention projection, 3 + 3i after the
/// feed-forward part; from 1 + 3 * layers on at the adapters, four per block. Packed micro-batches
/// give the result of separate samples; rows may then be longer than the context, but samples may
/// not.
class Gpt2 : public LanguageModel {
 public:
  /// Throws a usage Error naming the option ("model.width") if one is out of range.
  explicit Gpt2(const Gpt2Options& options, Initialisation initialisation = Initialisation::random);
  ~Gpt2() override;

  NamedParameters parameters() const override;
  std::vector<std::string> shared_parameters() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;
  std::optional<std::vector<at::Tensor>> prepare_recorded_pass() override;

  std::string kind() const override { return "gpt2"; }
  std::int64_t flops_per_sample() const override;
  std::int64_t packed_weight_bytes() const override;
  void pack_weights(bool wanted) override;
  /// The parameters in Hugging Face's layout (gpt2_io.h).
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  std::int64_t context() const override { return options().context; }
  std::int64_t vocab() const override { return options().vocab; }
  at::Tensor next_token_logits(const at::Tensor& ids) override;
  at::Tensor sequence_log_probabilities(const batch::MicroBatch& micro) override;
  DecodingCache make_decoding_cache() const override;
  at::Tensor decode(const at::Tensor& ids, DecodingCache& cache) override;
  const AdapterOptions& adapters() const override { return options().adapters; }
  void restart_adapters() override;

  const Gpt2Options& options() const;

  /// Operations of forward and backward for one token of a full context, without recomputation: 6N
  /// + 6 * layers * width * (context + 1). N counts all parameters except the position table, which
  /// is only looked up; a frozen one counts 4 instead of 6. Attention is causal: a sample has
  /// context * (context + 1) / 2 pairs of a query and a key with 12 * width operations per layer,
  /// while Chowdhery et al. (arXiv:2204.02311, appendix B) count context * context pairs.
  std::int64_t flops_per_token() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
