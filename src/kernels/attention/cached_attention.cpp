#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "accrue/core/error.h"
#include "accrue/kernels/key_value_cache.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/attention/cached_attention_simd.h"
#include "kernels/grain.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

void expect_cached(const at::Tensor& q, const GroupedAttentionOptions& options,
                   const KeyValueCache& cache) {
  const KeyValueCache::Shape& shape = cache.shape();
  if (!options.causal || options.kv_heads != shape.kv_heads || options.window != shape.window ||
      options.heads < 1 || options.heads % std::max<std::int64_t>(1, options.kv_heads) != 0)
    throw usage_error(
        "cached_attention",
        "causal attention with the heads of keys and the window of the cache (" +
            std::to_string(shape.kv_heads) + ", " + std::to_string(shape.window) + ')',
        std::to_string(options.heads) + " heads of queries, " + std::to_string(options.kv_heads) +
            " of keys, a window of " + std::to_string(options.window),
        "a cache for each layer");
  const bool fits = q.dim() == 3 && q.size(0) == 1 && q.size(1) > 0 &&
                    q.size(2) == options.heads * shape.width && q.scalar_type() == shape.dtype;
  if (!fits)
    throw usage_error("cached_attention",
                      std::string("q ") + c10::toString(shape.dtype) + " [1, T, " +
                          std::to_string(options.heads * shape.width) + "]",
                      text_of(q), "a projection of as many heads as the options say");
}

/// The division of the queries of all positions: `count` heads of a position at a time.
struct QueryTasks {
  std::int64_t first;  ///< position of the first query
  std::int64_t heads, group, count, width;
  double scale, soft_cap;
};

void attend_behind(const QueryTasks& tasks, const at::Tensor& q, const KeyValueCache& cache,
                   at::Tensor& out) {
  const at::Tensor keys = cache.keys(), values = cache.values();
  const std::int64_t length = q.size(1), window = cache.shape().window;
  const std::int64_t head_stride = keys.stride(0), at_a_position = tasks.heads / tasks.count;
  const Element type = element_of(q.scalar_type(), "cached_attention");
  const auto width = static_cast<std::size_t>(tasks.width);
  const auto count = static_cast<std::size_t>(tasks.count);
  const at::TensorOptions room = q.options().dtype(accumulation_dtype(q.scalar_type()));
  const auto scratch_size = static_cast<std::int64_t>(
      rows::cached_queries_scratch(count, width, static_cast<std::size_t>(keys.size(1))));
  const std::int64_t work = keys.size(1) * tasks.count * tasks.width;
  at::parallel_for(
      0, length * at_a_position, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
        at::Tensor scratch = at::empty({scratch_size}, room);
        for (std::int64_t index = begin; index < end; ++index) {
          const std::int64_t column = index / at_a_position;
          const std::int64_t head = index % at_a_position * tasks.count;
          const std::int64_t seen_end = tasks.first + column + 1;
          const std::int64_t seen_begin =
              window == 0 ? 0 : std::max<std::int64_t>(0, seen_end - window);
          const std::int64_t channel = (column * tasks.heads + head) * tasks.width;
          const std::int64_t row =
              head / tasks.group * head_stride + (seen_begin - cache.first()) * tasks.width;
          rows::attend_cached({.type = type,
                               .count = count,
                               .width = width,
                               .keys = static_cast<std::size_t>(seen_end - seen_begin),
                               .scale = tasks.scale,
                               .soft_cap = tasks.soft_cap,
                               .q = element(q, channel),
                               .k = element(keys, row),
                               .v = element(values, row),
                               .out = element(out, channel),
                               .scratch = scratch.mutable_data_ptr()});
        }
      });
}

}  // namespace

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const GroupedAttentionOptions& options, KeyValueCache& cache) {
  expect_cached(q, options, cache);
  const std::int64_t first = cache.positions(), length = q.size(1);
  // The kernel for whole samples processes the beginning of a sample, since it uses matrix
  // products.
  if (first == 0 && length > 1) {
    const at::Tensor out = grouped_attention(q, k, v, options, {.training = false});
    cache.append(k, v);
    return out;
  }
  cache.append(k, v);
  const std::int64_t width = cache.shape().width, group = options.heads / options.kv_heads;
  const bool few = length * options.kv_heads < at::get_num_threads();
  const QueryTasks tasks{
      .first = first,
      .heads = options.heads,
      .group = group,
      .count = few ? 1 : group,
      .width = width,
      .scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(width)) : options.scale,
      .soft_cap = options.soft_cap};
  const at::Tensor queries = q.contiguous();
  at::Tensor out = at::empty(queries.sizes(), queries.options());
  RECORD_FUNCTION("accrue::cached_attention",
                  span_of({queries, cache.keys(), cache.values(), out},
                          4 * length * options.heads * width * cache.keys().size(1)));
  attend_behind(tasks, queries, cache, out);
  return out;
}

}  // namespace accrue::kernels
