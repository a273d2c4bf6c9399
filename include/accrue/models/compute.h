#pragma once

namespace accrue::models {

/// The precision of a model's arithmetic. bf16 is mixed: masters and the residual stream in fp32.
enum class Compute { fp32, bf16, fp64 };

}  // namespace accrue::models
