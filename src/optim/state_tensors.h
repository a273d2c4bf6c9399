#pragma once

#include <ATen/core/Tensor.h>

#include <array>

/// The codes of state_passes.h by ATen's operators, for states on any device, with the same bits.
namespace accrue::optim::state_tensors {

/// fp32, of the codes' shape.
at::Tensor decode_codes(const at::Tensor& codes, const at::Tensor& scales,
                        const std::array<float, 256>& values);
void encode_signed(const at::Tensor& from, const at::Tensor& codes, const at::Tensor& scales);
/// The values are >= 0.
void encode_unsigned(const at::Tensor& from, const at::Tensor& codes, const at::Tensor& scales);

}  // namespace accrue::optim::state_tensors
