#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// Rotary position embedding (Su et al., arXiv:2104.09864), differentiable in x. Channels are
/// paired as in rotate_half of Hugging Face: channel i of a head with channel i + W/2, W the even
/// width of a head. At position t the pair (a, b) becomes
///   (a cosines[t, i] - b sines[t, i], b cosines[t, i] + a sines[t, i]).
///
/// x: [B, T, heads * W] fp32, fp64 or bf16; cosines, sines: [positions, W/2] fp32 (fp64 for fp64
/// x), with a row for each position of the longest sample. The position is the column in the row,
/// or in the sample if there are `spans`; columns outside spans give 0 and have no gradient.
/// Returns a new tensor with the sizes and dtype of x; backward needs neither x nor the result.
/// Throws a usage Error if sizes, dtypes or spans do not fit.
at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                  const at::Tensor& sines, const std::vector<SampleSpan>& spans = {});

}  // namespace accrue::kernels
