#pragma once

#include <string_view>

#include "accrue/models/llama.h"

namespace at {
class Tensor;
}

namespace accrue::models {

// If llama.cpp rotates adjacent channels (architecture "llama") the rows of queries and keys are
// stored in another order than Hugging Face's.

/// The heads of the rows of a tensor with one of Hugging Face's names; 0: its rows are not those of
/// queries or keys.
std::int64_t rotated_heads(std::string_view hub_name, const LlamaOptions& options);

/// Reorders the rows of each head from rotating channels i and i + half together to rotating
/// channels 2i and 2i + 1 together; and back.
at::Tensor as_neighbours(const at::Tensor& rows, std::int64_t heads);
at::Tensor as_halves(const at::Tensor& rows, std::int64_t heads);

}  // namespace accrue::models
