#pragma once

#include <string>
#include <vector>

#include "accrue/models/compute.h"
#include "accrue/models/normalisation.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {

/// A 2-d convolution without bias, padded to keep the size at stride 1.
struct Convolution {
  at::Tensor weight;  ///< [out, in, k, k]
  std::int64_t stride = 1;
  Compute compute = Compute::fp32;  ///< if it is mixed, sums and results are fp32

  at::Tensor operator()(const at::Tensor& x) const;
  /// Makes only the graph of a result that is never read; gradients have the same bits.
  at::Tensor unread(const at::Tensor& x) const;

 private:
  std::int64_t padding() const { return weight.size(2) / 2; }
};

/// A normalisation of a ResNet, of any kind: only batch normalisation has buffers.
struct NormLayer {
  Norm norm = Norm::batch;
  BatchNorm parts;

  /// Normalises x [B, C, H, W]. The caller that runs the segment does a batch normalisation.
  at::Tensor operator()(const at::Tensor& x) const;
};

struct ResidualBlock {
  std::string name;                       ///< "layer1.0"
  std::vector<Convolution> convolutions;  ///< conv1, conv2 and, in a bottleneck, conv3
  std::vector<NormLayer> norms;           ///< the one after each
  /// The shortcut's convolution, without weights if the shortcut is the input itself.
  Convolution projection;
  NormLayer projection_norm;

  bool projects() const { return projection.weight.defined(); }
};

/// The sizes of a block.
struct BlockShape {
  std::int64_t in = 0;      ///< channels that enter
  std::int64_t width = 0;   ///< channels of its convolutions of 3x3
  std::int64_t out = 0;     ///< channels that leave
  std::int64_t stride = 1;  ///< of its first convolution of 3x3
  std::int64_t convolutions = 2;
};

/// Makes layers with the parameters in `builder`, and collects their buffers.
class LayerBuilder {
 public:
  LayerBuilder(ParameterBuilder& builder, Norm norm, Compute compute)
      : builder_(builder), norm_(norm), compute_(compute) {}

  Convolution convolution(const std::string& name, std::int64_t in, std::int64_t out,
                          std::int64_t kernel, std::int64_t stride);
  NormLayer norm(const std::string& name, std::int64_t channels);
  ResidualBlock block(const std::string& name, const BlockShape& shape);

  NamedParameters take_buffers() { return std::move(buffers_); }

 private:
  at::Tensor buffer(const std::string& name, at::Tensor value);

  ParameterBuilder& builder_;
  Norm norm_;
  Compute compute_;
  NamedParameters buffers_;
};

}  // namespace accrue::models
