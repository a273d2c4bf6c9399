#include "accrue/models/resnet.h"

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/class_loss.h"
#include "kernels/operations.h"
#include "models/files/tensors/named_tensors.h"
#include "models/layers/compute_dtypes.h"
#include "models/layers/image_input.h"
#include "models/layers/option_checks.h"
#include "models/layers/resnet_layers.h"

namespace accrue::models {
namespace {

constexpr const char* make_resnet = "make a ResNet";
constexpr std::int64_t smallest_image = 8, largest_image = 4096;
constexpr std::int64_t most_resnet_layers = 6 * 200 + 2, most_resnet_width = 1 << 14;
/// The forward pass and the gradients of input and weights take a multiply and an add each.
constexpr std::int64_t flops_per_multiplication = 6;

Error no_such_network(const ResNetOptions& options) {
  if (options.stem == Stem::conv7x7)
    return usage_error(make_resnet, "model.layers of 18, 34, 50, 101 or 152",
                       std::to_string(options.layers), "model.layers=18");
  return usage_error(make_resnet, "model.layers of 6n + 2", std::to_string(options.layers),
                     "model.layers=" + std::to_string(options.layers / 6 * 6 + 2));
}

void check(const ResNetOptions& options) {
  check_range(make_resnet, "model.layers", options.layers, 8, most_resnet_layers);
  if (!resnet_stages(options.stem, options.layers)) throw no_such_network(options);
  check_range(make_resnet, "model.width", options.width, 1, most_resnet_width);
  check_range(make_resnet, "model.vocab", options.classes, 1, most_classes);
  check_range(make_resnet, "image channels", options.image[0], 1, most_resnet_width);
  check_range(make_resnet, "image height", options.image[1], smallest_image, largest_image);
  check_range(make_resnet, "image width", options.image[2], smallest_image, largest_image);
}

/// The pixels along a side after a convolution or pool of this stride, padded to keep the size
/// at 1.
std::int64_t pixels_after(std::int64_t pixels, std::int64_t stride) {
  return (pixels + stride - 1) / stride;
}

}  // namespace

struct ResNet::Impl {
  ResNetOptions options;
  ResNetStages stages;
  at::ScalarType dtype;  ///< of parameters and outputs
  Convolution conv1;
  NormLayer bn1;
  std::vector<ResidualBlock> blocks;
  at::Tensor fc_weight, fc_bias;
  kernels::PreparedWeight prepared_fc;
  NamedParameters parameters, buffers;

  Impl(const ResNetOptions& wanted, Initialisation initialisation)
      : options(wanted),
        stages(resnet_stages(wanted.stem, wanted.layers).value()),
        dtype(master_dtype(wanted.compute)) {
    ParameterBuilder builder(dtype, initialisation);
    LayerBuilder layers(builder, options.norm, options.compute);
    const bool is_large = options.stem == Stem::conv7x7;
    conv1 = layers.convolution("conv1", options.image[0], options.width, is_large ? 7 : 3,
                               is_large ? 2 : 1);
    bn1 = layers.norm("bn1", options.width);
    std::int64_t channels = options.width;
    for (std::size_t stage = 0; stage < stages.blocks.size(); ++stage)
      add_stage(layers, stage, channels);
    // This is the variance of torch::nn::Linear's uniform distribution.
    const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(channels));
    fc_weight = builder.normal("fc.weight", {options.classes, channels}, deviation);
    fc_bias = builder.constant("fc.bias", {options.classes}, 0);
    builder.fill(options.seed);
    parameters = builder.take();
    buffers = layers.take_buffers();
  }

  void add_stage(LayerBuilder& layers, std::size_t stage, std::int64_t& channels) {
    const std::int64_t width = options.width << stage;
    for (std::int64_t i = 0; i < stages.blocks[stage]; ++i) {
      const BlockShape shape{.in = channels,
                             .width = width,
                             .out = width * stages.expansion(),
                             .stride = stage > 0 && i == 0 ? 2 : 1,
                             .convolutions = stages.convolutions};
      blocks.push_back(
          layers.block("layer" + std::to_string(stage + 1) + '.' + std::to_string(i), shape));
      channels = shape.out;
    }
  }

  /// Applies the norm, unless it is a batch normalisation, which the segment's caller does.
  at::Tensor normalised(const NormLayer& layer, const at::Tensor& x) const {
    return layer.norm == Norm::batch ? x : layer(x);
  }

  at::Tensor first(const at::Tensor& images) const {
    return conv1(
        images_as(parameters.front().tensor.options().dtype(dtype), images, options.image));
  }

  /// The stem's output for its convolution's result.
  at::Tensor stem_output(const at::Tensor& x) const {
    const at::Tensor active = at::relu(normalised(bn1, x));
    if (options.stem == Stem::conv3x3) return active;
    return at::max_pool2d(active, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  }

  /// The input of block `index`: a block's result is completed by the next reader, since its last
  /// norm is at the cut.
  at::Tensor entrance(std::size_t index, const Activations& x) const {
    if (index == 0) return stem_output(x.at(0));
    const ResidualBlock& previous = blocks[index - 1];
    const at::Tensor shortcut =
        previous.projects() ? normalised(previous.projection_norm, x.at(1)) : x.at(1);
    return at::relu(normalised(previous.norms.back(), x.at(0)) + shortcut);
  }

  /// Runs block `index` from the norm before its convolution `number` to that convolution; also
  /// passes on the block's input, or after the last one the shortcut.
  Activations convolve(std::size_t index, std::size_t number, const Activations& x,
                       const ForwardContext& context) const {
    const ResidualBlock& block = blocks[index];
    const at::Tensor input = number == 0 ? entrance(index, x) : x.at(1);
    const at::Tensor hidden =
        number == 0 ? input : at::relu(normalised(block.norms[number - 1], x.at(0)));
    const bool is_last = number + 1 == block.convolutions.size();
    return {last(block.convolutions[number], hidden, context),
            is_last && block.projects() ? last(block.projection, input, context) : input};
  }

  /// The convolution that computes a segment's result.
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
    const ResidualBlock& previous = blocks[index - 1];
    if (!previous.projects()) return sites({{0, &previous.norms.back()}});
    return sites({{0, &previous.norms.back()}, {1, &previous.projection_norm}});
  }

  Segment segment(std::size_t index, std::size_t number) {
    const ResidualBlock& block = blocks[index];
    return {
        .name = block.name + ".conv" + std::to_string(number + 1),
        .forward =
            [this, index, number](const Activations& x, const batch::MicroBatch&,
                                  const ForwardContext& context) {
              return convolve(index, number, x, context);
            },
        .batch_norms = number == 0 ? entrance_sites(index) : sites({{0, &block.norms[number - 1]}}),
        .begins_block = index > 0 && number == 0,
        .cheap_graph = true};
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
  for (std::size_t i = 0; i < model->blocks.size(); ++i)
    for (std::size_t number = 0; number < model->blocks[i].convolutions.size(); ++number)
      chain.push_back(model->segment(i, number));
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
  std::int64_t multiplications = impl_->fc_weight.numel();
  const auto shrink = [&](std::int64_t stride) {
    height = pixels_after(height, stride);
    width = pixels_after(width, stride);
  };
  const auto count = [&](const Convolution& convolution) {
    multiplications += convolution.weight.numel() * height * width;
  };
  shrink(impl_->conv1.stride);
  count(impl_->conv1);
  if (impl_->options.stem == Stem::conv7x7) shrink(2);
  for (const ResidualBlock& block : impl_->blocks) {
    for (const Convolution& convolution : block.convolutions) {
      shrink(convolution.stride);
      count(convolution);
    }
    if (block.projects()) count(block.projection);
  }
  return flops_per_multiplication * multiplications;
}

NamedParameters ResNet::file_tensors() const {
  return file_tensors_of(impl_->parameters, impl_->buffers);
}

void ResNet::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  copy_by_name(file_tensors(), tensors, origin, "weights of a ResNet of this shape and norm");
}

}  // namespace accrue::models
