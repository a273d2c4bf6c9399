#include "train/plan/llama_activations.h"

#include <cmath>

namespace accrue::train {
namespace {

/// The bytes that one block keeps of a token.
double kept_by_llama_block(const models::LlamaOptions& shape, const memory::ValueBytes& bytes,
                           Recompute recompute) {
  const auto width = static_cast<double>(shape.width);
  if (recompute == Recompute::full) return bytes.master * width;
  const double queries = static_cast<double>(shape.heads * shape.head_width);
  const double keys = static_cast<double>(shape.kv_heads * shape.head_width);
  const double hidden = static_cast<double>(shape.ffn_width);
  // Query, key, value and attention's result; the inputs of the gate and its partner.
  double operands = 2 * queries + 2 * keys + 2 * hidden;
  if (recompute == Recompute::none) operands += 2 * width;  // the norms' results
  if (shape.variant.qk_norm) operands += queries + keys;    // before their norms
  if (shape.variant.post_norms) operands += 2 * width;
  constexpr double fp32_bytes = 4;
  const double log_sums = fp32_bytes * static_cast<double>(shape.heads);
  return 2 * bytes.master * width + operands * bytes.operand + log_sums;
}

/// Bytes for each token while the last block's backward runs: residuals, their gradients, and those
/// of the hidden layer. A block of GPT-2 was measured to take the same (memory/estimate.cpp).
double around_llama_blocks(const models::LlamaOptions& shape, const memory::ValueBytes& bytes) {
  constexpr double of_width = 5, of_hidden = 4;
  return bytes.master * (of_width * static_cast<double>(shape.width) +
                         of_hidden * static_cast<double>(shape.ffn_width));
}

}  // namespace

std::int64_t llama_activations(const models::LlamaOptions& given, const memory::ValueBytes& bytes,
                               Recompute recompute) {
  const models::LlamaOptions shape = models::with_usual_widths(given);
  const double kept = kept_by_llama_block(shape, bytes, recompute);
  // The input of the block that runs again is counted already.
  const double one_block =
      recompute == Recompute::full ? kept_by_llama_block(shape, bytes, Recompute::none) - kept : 0;
  const double of_token =
      static_cast<double>(shape.layers) * kept + one_block + around_llama_blocks(shape, bytes);
  return std::llround(static_cast<double>(shape.context) * of_token);
}

}  // namespace accrue::train
