#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "accrue/models/compute.h"
#include "accrue/models/initialisation.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/model.h"
#include "accrue/models/normalisation.h"

namespace accrue::models {

struct ResNetOptions {
  std::int64_t layers = 20;  ///< 6n + 2: 8, 14, 20, 32, 44, 56, 110
  std::int64_t width = 16;   ///< channels of the first stage; doubled twice
  std::int64_t classes = 10;
  std::array<std::int64_t, 3> image{3, 32, 32};  ///< channels, height, width; at least 8 x 8
  Norm norm = Norm::batch;
  LossOptions loss = {};
  Compute compute = Compute::fp32;  ///< fp32 or fp64
  std::uint64_t seed = 1337;        ///< of the initialisation
};

/// The residual network for small images (He, Zhang, Ren, Sun, arXiv:1512.03385, section 4.2): a
/// 3x3 convolution, three stages of n basic blocks with 1, 2 and 4 times `width` channels, global
/// average pool, a linear layer. Where a stage begins with fewer pixels the shortcut is a 1x1
/// convolution with a norm of its own. Parameters and buffers carry torchvision's names
/// ("conv1.weight", "layer2.0.downsample.1.running_mean", "fc.bias"), whatever the norm.
/// Convolutions: N(0, 2 / fan_out) (He et al., arXiv:1502.01852); norms 1 and 0; the linear layer
/// with the variance of torch::nn::Linear. Keyed by the parameter's name, so the values do not
/// depend on the order of creation; those of an fp64 model are those of the fp32 model.
///
/// Segments end where a norm stands: "conv1", then for each block "<block>.conv1", which passes on
/// {convolution, block's input}, and "<block>.conv2" with {convolution, shortcut}, and "fc", which
/// gives logits [B, classes]. Loss: cross-entropy with classes [B] as targets (-100: ignored),
/// weighted by the micro-batch's weights.
class ResNet : public Model {
 public:
  /// Throws a usage Error where the options are out of range, naming the option ("model.layers").
  explicit ResNet(const ResNetOptions& options,
                  Initialisation initialisation = Initialisation::random);
  ~ResNet() override;

  NamedParameters parameters() const override;
  NamedParameters buffers() const override;
  std::vector<Segment> segments() override;
  std::vector<LossHead> losses() override;

  std::string kind() const override { return "resnet"; }
  /// Counts convolutions and the linear layer: 6 for each multiply-add of the forward pass.
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
