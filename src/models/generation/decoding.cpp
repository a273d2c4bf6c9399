#include "models/generation/decoding.h"

#include <ATen/Functions.h>

#include <algorithm>

namespace accrue::models {
namespace {

/// Tokens that are read at once: this bounds the activations kept.
constexpr std::int64_t most_at_once = 1024;

std::int64_t common_beginning(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t common = 0;
  while (common < shorter && a[common] == b[common]) ++common;
  return static_cast<std::int64_t>(common);
}

}  // namespace

at::Tensor Decoding::next_logits(std::span<const std::int64_t> tokens) {
  const auto context = static_cast<std::size_t>(model_.context());
  const std::span<const std::int64_t> seen = tokens.last(std::min(tokens.size(), context));
  const std::int64_t length = std::ssize(seen);
  // The last token is always read: its logits are needed.
  std::int64_t kept = std::min(common_beginning(read_, seen), length - 1);
  if (!cache_.can_go_back_to(kept)) kept = 0;
  cache_.go_back_to(kept);
  read_.assign(seen.begin(), seen.begin() + kept);
  at::Tensor logits;
  while (kept < length) {
    const std::int64_t count = std::min(most_at_once, length - kept);
    const at::Tensor ids = at::empty({1, count}, at::TensorOptions().dtype(at::kLong));
    std::copy_n(seen.begin() + kept, count, ids.mutable_data_ptr<std::int64_t>());
    logits = model_.decode(ids, cache_);
    kept += count;
    read_.assign(seen.begin(), seen.begin() + kept);
  }
  return logits;
}

}  // namespace accrue::models
