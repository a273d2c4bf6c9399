#include "accrue/models/resnet.h"

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/class_loss.h"
#include "kernels/operations.h"
#include "models/files/named_tensors.h"
#include "models/layers/image_input.h"
#include "models/layers/option_checks.h"
#include "models/layers/resnet_layers.h"

namespace accrue::models {
namespace {

constexpr const char* make_resnet = "make a ResNet";
constexpr std::int64_t stages = 3;
constexpr std::int64_t smallest_image = 8, largest_image = 4096;
constexpr std::int64_t most_resnet_layers = 6 * 200 + 2, most_resnet_width = 1 << 14;
/// The forward pass and the gradients of input and weights take a multiply and an add each.
constexpr std::int64_t flops_per_multiplication = 6;

void check(const ResNetOptions& options) {
  check_range(make_resnet, "model.layers", options.layers, 8, most_resnet_layers);
  if ((options.layers - 2) % 6 != 0)
    throw usage_error(make_resnet, "model.layers of 6n + 2", std::to_string(options.layers),
                      "model.layers=" + std::to_string(options.layers / 6 * 6 + 2));
  check_range(make_resnet, "model.width", options.width, 1, most_resnet_width);
  check_range(make_resnet, "model.vocab", options.classes, 1, most_classes);
  check_range(make_resnet, "image channels", options.image[0], 1, most_resnet_width);
  check_range(make_resnet, "image height", options.image[1], smallest_image, largest_image);
  check_range(make_resnet, "image width", options.image[2], smallest_image, largest_image);
  if (options.compute == Compute::bf16)
    throw usage_error(make_resnet, "precision.compute \"fp32\" or \"fp64\"", "bf16",
                      "fp32: the convolutions have no mixed-precision path into fp32 gradients");
}

/// The pixels along a side after a 3x3 convolution of this stride, padded by 1.
std::int64_t pixels_after(std::int64_t pixels, std::int64_t stride) {
  return (pixels + stride - 1) / stride;
}

}  // namespace

struct ResNet::Impl {
  ResNetOptions options;
  at::ScalarType dtype;
  Convolution conv1;
  NormLayer bn1;
  std::vector<BasicBlock> blocks;
  at::Tensor fc_weight, fc_bias;
  kernels::PreparedWeight prepared_fc;
  NamedParameters parameters, buffers;

  Impl(const ResNetOptions& wanted, Initialisation initialisation)
      : options(wanted), dtype(wanted.compute == Compute::fp64 ? at::kDouble : at::kFloat) {
    ParameterBuilder builder(dtype, initialisation);
    LayerBuilder layers(builder, options.norm, dtype);
    conv1 = layers.convolution("conv1", options.image[0], options.width, 3, 1);
    bn1 = layers.norm("bn1", options.width);
    std::int64_t channels = options.width;
    for (std::int64_t stage = 0; stage < stages; ++stage) add_stage(layers, stage, channels);
    // This is the variance of torch::nn::Linear's uniform distribution.
    const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(channels));
    fc_weight = builder.normal("fc.weight", {options.classes, channels}, deviation);
    fc_bias = builder.constant("fc.bias", {options.classes}, 0);
    builder.fill(options.seed);
    parameters = builder.take();
    buffers = layers.take_buffers();
  }

  void add_stage(LayerBuilder& layers, std::int64_t stage, std::int64_t& channels) {
    const std::int64_t out = options.width << stage;
    for (std::int64_t i = 0; i < (options.layers - 2) / (2 * stages); ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + '.' + std::to_string(i);
      blocks.push_back(layers.block(name, channels, out, stage > 0 && i == 0 ? 2 : 1));
      channels = out;
    }
  }

  /// Applies the norm, unless it is a batch normalisation, which whoever runs the segment does.
  at::Tensor normalised(const NormLayer& layer, const at::Tensor& x) const {
    return layer.norm == Norm::batch ? x : layer(x);
  }

  at::Tensor first(const at::Tensor& images) const {
    return conv1(images_as(dtype, images, options.image));
  }

  /// What enters block `index`: a block's result is completed by whoever reads it, since its last
  /// norm stands at the cut.
  at::Tensor entrance(std::size_t index, const Activations& x) const {
    if (index == 0) return at::relu(normalised(bn1, x.at(0)));
    const BasicBlock& previous = blocks[index - 1];
    const at::Tensor shortcut =
        previous.projects() ? normalised(previous.projection_norm, x.at(1)) : x.at(1);
    return at::relu(normalised(previous.bn2, x.at(0)) + shortcut);
  }

  Activations first_half(std::size_t index, const Activations& x,
                         const ForwardContext& context) const {
    const at::Tensor input = entrance(index, x);
    return {last(blocks[index].conv1, input, context), input};
  }

  Activations second_half(std::size_t index, const Activations& x,
                          const ForwardContext& context) const {
    const BasicBlock& block = blocks[index];
    const at::Tensor hidden = at::relu(normalised(block.bn1, x.at(0)));
    return {last(block.conv2, hidden, context),
            block.projects() ? last(block.projection, x.at(1), context) : x.at(1)};
  }

  /// The convolution that gives a segment's result.
  static at::Tensor last(const Convolution& convolution, const at::Tensor& x,
                         const ForwardContext& context) {
    return context.result_unread ? convolution.unread(x) : convolution(x);
  }

  at::Tensor logits(const Activations& x, const ForwardContext& context) {
    const at::Tensor pooled = entrance(blocks.size(), x).mean({2, 3});
    return kernels::operations_of(context).linear(pooled, fc_weight, fc_bias, prepared_fc, {});
  }

  std::vector<BatchNormSite> sites(std::vector<std::pair<std::size_t, const NormLayer*>> at) const {
    std::vector<BatchNormSite> result;
    if (options.norm != Norm::batch) return result;
    for (const auto& [activation, layer] : at) result.push_back({activation, layer->parts});
    return result;
  }

  /// The batch normalisations at the cut before block `index`.
  std::vector<BatchNormSite> entrance_sites(std::size_t index) const {
    if (index == 0) return sites({{0, &bn1}});
    const BasicBlock& previous = blocks[index - 1];
    if (!previous.projects()) return sites({{0, &previous.bn2}});
    return sites({{0, &previous.bn2}, {1, &previous.projection_norm}});
  }
};

ResNet::ResNet(const ResNetOptions& options, Initialisation initialisation) {
  check(options);
  impl_ = std::make_unique<Impl>(options, initialisation);
}

ResNet::~ResNet() = default;

NamedParameters ResNet::parameters() const { return impl_->parameters; }
NamedParameters ResNet::buffers() const { return impl_->buffers; }
const ResNetOptions& ResNet::options() const { return impl_->options; }

std::vector<Segment> ResNet::segments() {
  Impl* model = impl_.get();
  std::vector<Segment> chain;
  chain.push_back(
      {"conv1", [model](const Activations&, const batch::MicroBatch& micro, const ForwardContext&) {
         return Activations{model->first(micro.inputs)};
       }});
  for (std::size_t i = 0; i < model->blocks.size(); ++i) {
    const BasicBlock& block = model->blocks[i];
    chain.push_back(
        {.name = block.name + ".conv1",
         .forward = [model, i](
                        const Activations& x, const batch::MicroBatch&,
                        const ForwardContext& context) { return model->first_half(i, x, context); },
         .batch_norms = model->entrance_sites(i),
         .begins_block = i > 0,
         .cheap_graph = true});
    chain.push_back({.name = block.name + ".conv2",
                     .forward =
                         [model, i](const Activations& x, const batch::MicroBatch&,
                                    const ForwardContext& context) {
                           return model->second_half(i, x, context);
                         },
                     .batch_norms = model->sites({{0, &block.bn1}}),
                     .cheap_graph = true});
  }
  chain.push_back(
      {"fc",
       [model](const Activations& x, const batch::MicroBatch&, const ForwardContext& context) {
         return Activations{model->logits(x, context)};
       },
       model->entrance_sites(model->blocks.size())});
  return chain;
}

std::vector<LossHead> ResNet::losses() { return {class_cross_entropy_head(impl_->options.loss)}; }

std::int64_t ResNet::flops_per_sample() const {
  std::int64_t height = impl_->options.image[1], width = impl_->options.image[2];
  std::int64_t multiplications = impl_->conv1.weight.numel() * height * width;
  for (const BasicBlock& block : impl_->blocks) {
    height = pixels_after(height, block.conv1.stride);
    width = pixels_after(width, block.conv1.stride);
    std::int64_t weights = block.conv1.weight.numel() + block.conv2.weight.numel();
    if (block.projects()) weights += block.projection.weight.numel();
    multiplications += weights * height * width;
  }
  return flops_per_multiplication * (multiplications + impl_->fc_weight.numel());
}

NamedParameters ResNet::file_tensors() const {
  NamedParameters tensors;
  for (const NamedParameter& p : impl_->parameters) tensors.push_back({p.name, p.tensor.detach()});
  tensors.insert(tensors.end(), impl_->buffers.begin(), impl_->buffers.end());
  return tensors;
}

void ResNet::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  copy_by_name(file_tensors(), tensors, origin, "weights of a ResNet of this shape and norm");
}

}  // namespace accrue::models
