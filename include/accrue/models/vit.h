#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"

namespace accrue::models {

struct VitOptions {
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t width = 384;   ///< a multiple of `heads`
  std::int64_t patches = 64;  ///< a square whose root divides height and width
  std::int64_t classes = 10;
  std::array<std::int64_t, 3> image{3, 32, 32};  ///< channels, height, width
  double dropout = 0;
  LossOptions loss = {};
  Compute compute = Compute::fp32;  ///< bf16 is mixed: masters, residuals in fp32
  std::uint64_t seed = 1337;        ///< of the initialisation
};

/// The vision transformer (Dosovitskiy et al., arXiv:2010.11929): the image's patches through a
/// linear map, a class token before them, learned positions, pre-norm blocks with tanh GELU; a
/// linear layer reads the class token. Files have the names and layout of Hugging Face's
/// ViTForImageClassification ("vit.embeddings.cls_token", ...; hidden_act "gelu_pytorch_tanh",
/// layer_norm_eps 1e-6); in memory query, key and value are one parameter
/// ("...attention.attention.qkv.weight") and the patch projection is a matrix. Initial weights
/// N(0, 0.02), biases 0 and norms 1, keyed by parameter name. An fp64 model has the values of the
/// fp32 model.
///
/// Segments: "embed", "block.0" ..., "head", which gives logits [B, classes]. Dropout sites: 0
/// after the embedding; in block i 1 + 3i in the attention weights, 2 + 3i after the attention
/// projection, 3 + 3i after the feed-forward part. The loss is ResNet's.
class Vit : public Model {
 public:
  /// Throws a usage Error naming the option ("model.width") if one is out of range.
  explicit Vit(const VitOptions& options, Initialisation initialisation = Initialisation::random);
  ~Vit() override;

  NamedParameters parameters() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;

  std::string kind() const override { return "vit"; }
  /// Counts for patches + 1 positions 6 per weight of the blocks and 12 * width * positions per
  /// layer (Chowdhery et al., arXiv:2204.02311, appendix B); 6 per weight of the patch projection
  /// and patch, and per weight of the last layer.
  std::int64_t flops_per_sample() const override;
  std::int64_t packed_weight_bytes() const override;
  void pack_weights(bool wanted) override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  const VitOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
