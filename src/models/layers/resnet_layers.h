#pragma once

#include <string>
#include <vector>

#include "accrue/models/normalisation.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {

/// A 2-d convolution without bias, padded to keep the size at stride 1.
struct Convolution {
  at::Tensor weight;  ///< [out, in, k, k]
  std::int64_t stride = 1;

  at::Tensor operator()(const at::Tensor& x) const;
  /// Makes only the graph of the result, which nobody reads; gradients have the same bits.
  at::Tensor unread(const at::Tensor& x) const;

 private:
  std::int64_t padding() const { return weight.size(2) / 2; }
};

/// A normalisation of a ResNet, of any kind: only batch normalisation has buffers.
struct NormLayer {
  Norm norm = Norm::batch;
  BatchNorm parts;

  /// Normalises x [B, C, H, W]. A batch normalisation is left to whoever runs the segment.
  at::Tensor operator()(const at::Tensor& x) const;
};

struct BasicBlock {
  std::string name;  ///< "layer1.0"
  Convolution conv1, conv2;
  NormLayer bn1, bn2;
  /// The shortcut's convolution, without weights where the shortcut is the input itself.
  Convolution projection;
  NormLayer projection_norm;

  bool projects() const { return projection.weight.defined(); }
};

/// Makes layers with the parameters in `builder`, and collects their buffers.
class LayerBuilder {
 public:
  LayerBuilder(ParameterBuilder& builder, Norm norm, at::ScalarType dtype)
      : builder_(builder), norm_(norm), dtype_(dtype) {}

  Convolution convolution(const std::string& name, std::int64_t in, std::int64_t out,
                          std::int64_t kernel, std::int64_t stride);
  NormLayer norm(const std::string& name, std::int64_t channels);
  BasicBlock block(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t stride);

  NamedParameters take_buffers() { return std::move(buffers_); }

 private:
  at::Tensor buffer(const std::string& name, at::Tensor value);

  ParameterBuilder& builder_;
  Norm norm_;
  at::ScalarType dtype_;
  NamedParameters buffers_;
};

}  // namespace accrue::models
