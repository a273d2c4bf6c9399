#pragma once

#include <cstdint>
#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"

namespace accrue::models {

struct BertOptions {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;    ///< a multiple of `heads`
  std::int64_t ffn_width = 0;  ///< of the feed-forward part; 0: 4 * width
  std::int64_t context = 512;
  std::int64_t vocab = 30'522;
  std::int64_t token_types = 2;  ///< all tokens have the first type
  double norm_eps = 1e-12;
  double dropout = 0;
  LossOptions loss = {.kind = LossKind::mlm};
  /// Whether the loss is computed in chunks of rows, instead of from complete logits.
  bool fused_loss = true;
  Compute compute = Compute::fp32;  ///< bf16 is mixed: masters and the residual stream in fp32
  std::uint64_t seed = 1337;        ///< of the initialisation

  std::int64_t inner_width() const { return ffn_width == 0 ? 4 * width : ffn_width; }
};

/// BERT as a masked language model (Devlin et al., arXiv:1810.04805): embeddings of token, position
/// and token type 0 followed by a norm, bidirectional attention, post-norm blocks (each norm after
/// its residual connection), GELU by erf; the head is a linear layer, GELU and norm, then the token
/// embedding and a bias. Files have the names and layout of Hugging Face's BertForMaskedLM
/// ("bert.embeddings.word_embeddings.weight", ...); in memory query, key and value are one
/// parameter ("...attention.self.qkv.weight"). Initial weights N(0, 0.02), biases 0 and norms 1,
/// keyed by parameter name. An fp64 model has the values of the fp32 model.
///
/// The loss is taken at positions whose micro.targets is not -100, and only these go through the
/// head: other logits are never computed. A position attends to all of its sample. Rows that are
/// not one whole sample have spans (MicroBatch::spans); columns outside are padding, to which no
/// position attends. Packed micro-batches give the result of separate samples.
///
/// Segments: "embed", "block.0" ... "block.<layers-1>", "head" (up to the norm before the token
/// embedding, [positions, width]). Dropout sites (kernels/dropout.h): 0 after the embedding; in
/// block i 1 + 3i in the attention probabilities, 2 + 3i after the attention projection, 3 + 3i
/// after the feed-forward part.
class Bert : public Model {
 public:
  /// Throws a usage Error naming the option ("model.width") if one is out of range.
  explicit Bert(const BertOptions& options, Initialisation initialisation = Initialisation::random);
  ~Bert() override;

  NamedParameters parameters() const override;
  std::vector<std::string> shared_parameters() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;

  std::string kind() const override { return "bert"; }
  /// Counts per position 6 for each weight of the blocks and 12 * width * context per layer
  /// (Chowdhery et al., arXiv:2204.02311, appendix B), and for 15% of the positions 6 for each
  /// weight of the head.
  std::int64_t flops_per_sample() const override;
  std::int64_t packed_weight_bytes() const override;
  void pack_weights(bool wanted) override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  /// The options with `ffn_width` resolved.
  const BertOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
