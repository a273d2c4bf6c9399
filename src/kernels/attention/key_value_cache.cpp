#include "accrue/kernels/key_value_cache.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <string>

#include "accrue/core/error.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

constexpr const char* append_to_cache = "append to a key-value cache";

/// The rows of `from` in memory for `room` rows.
at::Tensor moved(const at::Tensor& from, std::int64_t room) {
  at::Tensor to = at::empty({from.size(0), room, from.size(2)}, from.options());
  to.narrow(1, 0, from.size(1)).copy_(from);
  return to;
}

}  // namespace

void KeyValueCache::expect(const at::Tensor& added) const {
  const std::int64_t channels = shape_.kv_heads * shape_.width;
  const bool fits = added.dim() == 3 && added.size(0) == 1 && added.size(2) == channels &&
                    added.scalar_type() == shape_.dtype && added.is_cpu();
  if (!fits)
    throw usage_error(append_to_cache,
                      std::string(c10::toString(shape_.dtype)) + " [1, T, " +
                          std::to_string(channels) + "] in host memory",
                      text_of(added), "a cache of the layer's shape");
  if (positions() + added.size(1) > shape_.most_positions)
    throw usage_error(
        append_to_cache, "at most " + std::to_string(shape_.most_positions) + " positions",
        std::to_string(positions() + added.size(1)), "a new cache with the last positions");
}

void KeyValueCache::make_room(std::int64_t count) {
  constexpr std::int64_t least_room = 64;
  const std::int64_t room = keys_.defined() ? keys_.size(1) : 0;
  if (held_ + count <= room) return;
  // The next query sees itself and window - 1 keys before it.
  const std::int64_t kept = shape_.window == 0 ? held_ : std::min(held_, shape_.window - 1);
  const std::int64_t needed = kept + count;
  const std::int64_t most =
      shape_.window == 0 ? shape_.most_positions : std::max(needed, 2 * shape_.window);
  const std::int64_t wanted =
      needed <= room ? room : std::min(most, std::max({needed, 2 * room, least_room}));
  const at::TensorOptions options = at::TensorOptions().dtype(shape_.dtype);
  if (room == 0) {
    keys_ = at::empty({shape_.kv_heads, wanted, shape_.width}, options);
    values_ = at::empty_like(keys_);
  } else {
    keys_ = moved(keys_.narrow(1, held_ - kept, kept), wanted);
    values_ = moved(values_.narrow(1, held_ - kept, kept), wanted);
  }
  first_ += held_ - kept;
  held_ = kept;
}

void KeyValueCache::append(const at::Tensor& keys, const at::Tensor& values) {
  expect(keys);
  expect(values);
  if (values.size(1) != keys.size(1))
    throw usage_error(append_to_cache, "as many values as keys",
                      text_of(keys) + " and " + text_of(values), "those of the same positions");
  const std::int64_t count = keys.size(1);
  make_room(count);
  const auto by_head = [&](const at::Tensor& added) {
    return added.reshape({count, shape_.kv_heads, shape_.width}).transpose(0, 1);
  };
  keys_.narrow(1, held_, count).copy_(by_head(keys));
  values_.narrow(1, held_, count).copy_(by_head(values));
  held_ += count;
}

bool KeyValueCache::can_go_back_to(std::int64_t positions) const {
  if (positions < 0 || positions > this->positions()) return false;
  const std::int64_t first_seen =
      shape_.window == 0 ? 0 : std::max<std::int64_t>(0, positions + 1 - shape_.window);
  return positions == 0 || first_ <= first_seen;
}

void KeyValueCache::go_back_to(std::int64_t positions) {
  if (positions == 0) first_ = 0;
  held_ = positions - first_;
}

}  // namespace accrue::kernels
