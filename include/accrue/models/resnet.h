#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"
#include "accrue/models/normalisation.h"
#include "accrue/models/resnet_shape.h"

namespace accrue::models {

struct ResNetOptions {
  std::int64_t layers = 20;  ///< as resnet_stages() lists them
  Stem stem = Stem::conv3x3;
  std::int64_t width = 16;  ///< channels of the first stage, doubled from stage to stage
  std::int64_t classes = 10;
  std::array<std::int64_t, 3> image{3, 32, 32};  ///< channels, height, width; at least 8 x 8
  Norm norm = Norm::batch;
  LossOptions loss = {};
  /// bf16: the operands of convolutions are rounded to bf16; sums, activations, norms and gradients
  /// of weights are fp32.
  Compute compute = Compute::fp32;
  std::uint64_t seed = 1337;  ///< of the initialisation
};

/// Residual networks (He, Zhang, Ren, Sun, arXiv:1512.03385). With a 3x3 stem, those for small
/// images (section 4.2): a 3x3 convolution and three stages of n basic blocks with 1, 2 and 4 times
/// `width` channels. With a 7x7 stem, those for ImageNet (section 4.1): a 7x7 convolution and a
/// maximum pool, both with stride 2, and four stages of basic blocks or bottlenecks, in which the
/// 3x3 convolution has the stride. Then global average pool and a linear layer. If the channels or
/// the pixels change, the shortcut is a 1x1 convolution with its own norm. Parameters and buffers
/// have torchvision's names ("conv1.weight", "layer2.0.downsample.1.running_mean", "fc.bias"),
/// whatever the norm. Initial values: convolutions N(0, 2 / fan_out) (He et al., arXiv:1502.01852),
/// norms 1 and 0, the linear layer with the variance of torch::nn::Linear. They are keyed by
/// parameter name, so they do not depend on the order of creation; an fp64 model has the values of
/// the fp32 model.
///
/// Segments end before each norm: "conv1", then for each block "<block>.conv1" (and for a
/// bottleneck "<block>.conv2"), which pass on {convolution, block's input}, its last convolution
/// with {convolution, shortcut}, and "fc", which gives logits [B, classes]. Loss: cross-entropy
/// with classes [B] as targets (-100: ignored), weighted by the micro-batch's weights.
class ResNet : public Model {
 public:
  /// Throws a usage Error naming the option ("model.layers") if one is out of range.
  explicit ResNet(const ResNetOptions& options,
                  Initialisation initialisation = Initialisation::random);
  ~ResNet() override;

  NamedParameters parameters() const override;
  NamedParameters buffers() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;

  std::string kind() const override { return "resnet"; }
  /// Counts convolutions and the linear layer: 6 per multiply-add of the forward pass.
  std::int64_t flops_per_sample() const override;
  NamedParameters file_tensors() const override;
  using Model::load_file_tensors;
  void load_file_tensors(const StoredTensors& tensors, const std::string& origin) override;

  const ResNetOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::models
