#include "accrue/models/vit.h"

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/class_loss.h"
#include "kernels/operations.h"
#include "models/files/tensors/named_tensors.h"
#include "models/layers/compute_dtypes.h"
#include "models/layers/image_input.h"
#include "models/layers/option_checks.h"
#include "models/layers/transformer_block.h"
#include "models/layers/transformer_segments.h"

namespace accrue::models {
namespace {

constexpr const char* make_vit = "make a ViT";
constexpr double vit_norm_eps = 1e-6;
constexpr std::int64_t most_vit_layers = 1000, most_vit_width = 1 << 16, most_patches = 1 << 16;

/// The root of a square; 0 for other numbers.
std::int64_t root_of(std::int64_t square) {
  const auto root = std::llround(std::sqrt(static_cast<double>(square)));
  return root * root == square ? root : 0;
}

void check_patches(const VitOptions& options) {
  const auto [channels, height, width] = options.image;
  check_range(make_vit, "model.context", options.patches, 1, most_patches);
  check_range(make_vit, "image channels", channels, 1, most_vit_width);
  check_range(make_vit, "image height", height, 1, most_vit_width);
  check_range(make_vit, "image width", width, 1, most_vit_width);
  const std::int64_t side = root_of(options.patches);
  if (side != 0 && height % side == 0 && width % side == 0) return;
  std::string fitting;
  for (std::int64_t i = 1; i <= std::min(height, width); ++i)
    if (height % i == 0 && width % i == 0)
      fitting += (fitting.empty() ? "" : ", ") + std::to_string(i * i);
  throw usage_error(make_vit,
                    "model.context, the number of patches, as a square that tiles images of " +
                        std::to_string(height) + " x " + std::to_string(width),
                    std::to_string(options.patches), "one of " + fitting);
}

void check(const VitOptions& options) {
  check_range(make_vit, "model.layers", options.layers, 1, most_vit_layers);
  check_range(make_vit, "model.heads", options.heads, 1, most_vit_width);
  check_range(make_vit, "model.width", options.width, 1, most_vit_width);
  check_range(make_vit, "model.vocab", options.classes, 1, most_classes);
  check_width_of_heads(make_vit, options.width, options.heads);
  check_dropout(make_vit, options.dropout);
  check_patches(options);
}

Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out) {
  return make_projection(builder, name, in, out, initial_deviation);
}

TransformerBlock make_block(ParameterBuilder& builder, std::int64_t width, std::int64_t index) {
  const std::string name = "vit.encoder.layer." + std::to_string(index);
  // Braces evaluate in order, so the parameters are registered in forward order.
  return {
      make_norm(builder, name + ".layernorm_before", width, vit_norm_eps),
      make_projection(builder, name + ".attention.attention.qkv", width, 3 * width),
      make_projection(builder, name + ".attention.output.dense", width, width),
      make_norm(builder, name + ".layernorm_after", width, vit_norm_eps),
      make_projection(builder, name + ".intermediate.dense", width, 4 * width),
      make_projection(builder, name + ".output.dense", 4 * width, width),
  };
}

}  // namespace

struct Vit::Impl {
  VitOptions options;
  at::ScalarType masters, activations;  ///< dtypes of the residual stream and of GEMM inputs
  std::int64_t side;                    ///< patches along an edge
  at::Tensor class_token, positions;
  Projection patch_projection;
  std::vector<TransformerBlock> blocks;
  LayerNorm norm;
  Projection classifier;
  NamedParameters parameters;

  Impl(const VitOptions& wanted, Initialisation initialisation)
      : options(wanted),
        masters(master_dtype(wanted.compute)),
        activations(activation_dtype(wanted.compute)),
        side(root_of(wanted.patches)) {
    const std::int64_t width = options.width;
    ParameterBuilder builder(masters, initialisation);
    class_token = builder.normal("vit.embeddings.cls_token", {1, 1, width}, initial_deviation);
    positions = builder.normal("vit.embeddings.position_embeddings",
                               {1, options.patches + 1, width}, initial_deviation);
    patch_projection = make_projection(builder, "vit.embeddings.patch_embeddings.projection",
                                       options.image[0] * patch_height() * patch_width(), width);
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks.push_back(make_block(builder, width, i));
    norm = make_norm(builder, "vit.layernorm", width, vit_norm_eps);
    classifier = make_projection(builder, "classifier", width, options.classes);
    builder.fill(options.seed);
    parameters = builder.take();
  }

  std::int64_t patch_height() const { return options.image[1] / side; }
  std::int64_t patch_width() const { return options.image[2] / side; }

  /// Images [B, C, H, W] as [B, patches, C * h * w], patches row by row.
  at::Tensor patches_of(const at::Tensor& images) const {
    const at::Tensor x =
        images_as(patch_projection.weight.options().dtype(activations), images, options.image);
    const std::int64_t batch = x.size(0), channels = x.size(1);
    return x.view({batch, channels, side, patch_height(), side, patch_width()})
        .permute({0, 2, 4, 1, 3, 5})
        .reshape({batch, options.patches, channels * patch_height() * patch_width()});
  }

  at::Tensor embed(const at::Tensor& images, const ForwardContext& context) {
    const at::Tensor patches = patch_projection(patches_of(images), context).to(masters);
    const at::Tensor tokens =
        at::cat({class_token.expand({patches.size(0), 1, options.width}), patches}, 1);
    return kernels::operations_of(context).dropout(tokens + positions, options.dropout, context, 0);
  }

  at::Tensor block(std::int64_t index, const at::Tensor& x, const ForwardContext& context) {
    const BlockOptions common{.heads = options.heads,
                              .causal = false,
                              .dropout = options.dropout,
                              .activations = activations};
    return blocks[static_cast<std::size_t>(index)](x, common, context, 1 + 3 * index);
  }

  at::Tensor head(const at::Tensor& x, const ForwardContext& context) {
    return classifier(norm(x.select(1, 0).contiguous(), masters, context), context);
  }

  std::vector<at::Tensor> embed_weights() const {
    std::vector<at::Tensor> tensors = patch_projection.weights();
    tensors.insert(tensors.end(), {class_token, positions});
    return tensors;
  }
  std::vector<at::Tensor> head_weights() const { return classifier.weights(); }
};

Vit::Vit(const VitOptions& options, Initialisation initialisation) {
  check(options);
  impl_ = std::make_unique<Impl>(options, initialisation);
}

Vit::~Vit() = default;

NamedParameters Vit::parameters() const { return impl_->parameters; }
const VitOptions& Vit::options() const { return impl_->options; }

std::vector<Segment> Vit::segments() {
  return transformer_segments(impl_.get(), impl_->options.layers);
}

std::vector<LossHead> Vit::losses() { return {class_cross_entropy_head(impl_->options.loss)}; }

std::int64_t Vit::flops_per_sample() const {
  const VitOptions& o = options();
  const std::int64_t positions = o.patches + 1, width = o.width;
  const std::int64_t block_weights = 12 * width * width;
  return positions * o.layers * (6 * block_weights + 12 * width * positions) +
         6 * (o.patches * impl_->patch_projection.weight.numel() +
              impl_->classifier.weight.numel());
}

std::int64_t Vit::packed_weight_bytes() const {
  return models::packed_weight_bytes(projections_of(impl_->blocks), impl_->activations);
}

void Vit::pack_weights(bool wanted) { models::pack_weights(projections_of(impl_->blocks), wanted); }

NamedParameters Vit::file_tensors() const {
  NamedParameters tensors;
  for (const auto& [name, tensor] : impl_->parameters) {
    const at::Tensor values = tensor.detach();
    if (tensor.is_same(impl_->patch_projection.weight))
      tensors.push_back({name, values.view({impl_->options.width, impl_->options.image[0],
                                            impl_->patch_height(), impl_->patch_width()})});
    else
      append_split(tensors, name, values);
  }
  return tensors;
}

void Vit::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  copy_by_name(file_tensors(), tensors, origin, "weights of a ViT of this shape");
}

}  // namespace accrue::models
