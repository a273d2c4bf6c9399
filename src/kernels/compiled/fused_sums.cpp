#include "kernels/compiled/fused_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "kernels/compiled/arguments.h"
#include "kernels/compiled/device_program.h"

namespace accrue::kernels::compiled {
namespace {

constexpr unsigned threads = 256;
constexpr std::int64_t tile_columns = 128;  ///< of one block of column_partials
constexpr std::int64_t total_columns = 32;  ///< of one block of column_totals
constexpr std::int64_t token_chunk = 32;    ///< sorted rows of one block of token_runs
/// Blocks that share a sum of columns: several per multiprocessor of a large GPU.
constexpr std::int64_t enough_blocks = 528;
constexpr std::int64_t least_chunk_rows = 64;

/// The second kernel of a sum of columns.
void add_totals(const at::Tensor& partial, at::Tensor& out, bool accumulate) {
  const void *from = address(partial), *to = address(out);
  const auto chunks = static_cast<int>(partial.size(0)),
             columns = static_cast<int>(partial.size(1));
  const int adds = accumulate ? 1 : 0;
  launch(
      partial,
      {.kernel = "column_totals", .blocks = blocks_for(columns, total_columns), .threads = threads},
      {&from, &to, &chunks, &columns, &adds});
}

/// The division of a matrix of rows among blocks.
struct Tiling {
  int columns, tiles, chunk_rows;
  std::int64_t chunks;

  Tiling(std::int64_t rows, std::int64_t width)
      : columns(static_cast<int>(width)),
        tiles(static_cast<int>(blocks_for(width, tile_columns))),
        chunk_rows(static_cast<int>(std::max(
            least_chunk_rows, blocks_for(rows, std::max<std::int64_t>(1, enough_blocks / tiles))))),
        chunks(blocks_for(rows, chunk_rows)) {}
};

/// Whether the three parts of [B, T, 3 * C] are side by side in one tensor.
bool are_side_by_side(const Projections& to) {
  const std::int64_t channels = to.q.size(2), part = channels * to.q.element_size();
  const auto* first = static_cast<const char*>(to.q.const_data_ptr());
  const auto follows = [&](const at::Tensor& tensor, std::int64_t parts) {
    return tensor.const_data_ptr() == first + parts * part && tensor.size(2) == channels &&
           tensor.stride(2) == 1 && tensor.stride(1) == 3 * channels &&
           tensor.stride(0) == 3 * channels * tensor.size(1);
  };
  return follows(to.q, 0) && follows(to.k, 1) && follows(to.v, 2);
}

}  // namespace

bool sums_columns(const at::Tensor& g, const at::Tensor& out) {
  return can_compile_for(g) && g.numel() > 0 && is_narrow_or_single(g.scalar_type()) &&
         out.scalar_type() == at::kFloat && g.size(1) % vector == 0 && is_aligned(g);
}

void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) {
  if (g.scalar_type() == at::kFloat && g.size(0) <= enough_blocks)
    return add_totals(g, out, accumulate);
  const Tiling tiling(g.size(0), g.size(1));
  const at::Tensor partial = at::empty({tiling.chunks, tiling.columns}, out.options());
  const void *from = address(g), *sums = address(partial);
  const long long rows = g.size(0);
  launch(g,
         {.kernel = std::string("column_partials<") + name_of(g.scalar_type()) + ">",
          .blocks = tiling.chunks * tiling.tiles,
          .threads = threads},
         {&from, &sums, &rows, &tiling.columns, &tiling.chunk_rows, &tiling.tiles});
  add_totals(partial, out, accumulate);
}

bool makes_gelu(const at::Tensor& pre) {
  return can_compile_for(pre) && is_narrow_or_single(pre.scalar_type()) && pre.numel() > 0 &&
         pre.size(-1) % vector == 0 && is_aligned(pre);
}

at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                              at::Tensor& grad_pre) {
  const long long rows = pre.numel() / pre.size(-1);
  const Tiling tiling(rows, pre.size(-1));
  const at::Tensor partial =
      at::empty({tiling.chunks, tiling.columns}, pre.options().dtype(at::kFloat));
  const void *grads = address(grad_out), *from = address(pre), *to = address(out),
             *derivative = address(grad_pre), *sums = address(partial);
  launch(pre,
         {.kernel = std::string("gelu_with_backward<") + name_of(pre.scalar_type()) + ">",
          .blocks = tiling.chunks * tiling.tiles,
          .threads = threads},
         {&grads, &from, &to, &derivative, &sums, &rows, &tiling.columns, &tiling.chunk_rows,
          &tiling.tiles});
  return partial;
}

bool adds_rows(const at::Tensor& grad, const at::Tensor& table) {
  return can_compile_for(table) && table.scalar_type() == at::kFloat &&
         grad.scalar_type() == at::kFloat && grad.numel() > 0 && table.size(1) % vector == 0 &&
         is_aligned(grad) && is_aligned(table);
}

void add_rows(const at::Tensor& index, const at::Tensor& grad, at::Tensor& table) {
  const auto [keys, places] = at::sort(index, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const std::int64_t chunks = blocks_for(index.numel(), token_chunk);
  const at::Tensor edges = at::empty({chunks, 2, table.size(1)}, table.options());
  const void *sorted = address(keys), *order = address(places), *from = address(grad),
             *to = address(table), *parts = address(edges);
  const long long rows = index.numel();
  const auto columns = static_cast<int>(table.size(1));
  launch(table, {.kernel = "token_runs", .blocks = chunks, .threads = threads},
         {&sorted, &order, &from, &to, &parts, &rows, &columns});
  launch(table, {.kernel = "token_edges", .blocks = chunks, .threads = threads},
         {&sorted, &to, &parts, &rows, &columns});
}

bool packs_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const Projections& to) {
  const bool alike = q.strides() == k.strides() && q.strides() == v.strides() &&
                     q.sizes() == k.sizes() && q.stride(3) == 1;
  const bool whole = q.size(3) % vector == 0 && q.stride(0) % vector == 0 &&
                     q.stride(1) % vector == 0 && q.stride(2) % vector == 0;
  return can_compile_for(q) && is_narrow_or_single(q.scalar_type()) && alike && whole &&
         q.size(0) == to.q.size(0) && q.size(2) == to.q.size(1) &&
         q.scalar_type() == to.q.scalar_type() && are_side_by_side(to);
}

void pack_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Projections& to) {
  const void *queries = address(q), *keys = address(k), *values = address(v), *out = address(to.q);
  const long long batch_stride = q.stride(0), head_stride = q.stride(1),
                  position_stride = q.stride(2);
  const auto heads = static_cast<int>(q.size(1)), length = static_cast<int>(q.size(2)),
             width = static_cast<int>(q.size(3));
  launch(q,
         {.kernel = std::string("pack_heads<") + name_of(q.scalar_type()) + ">",
          .blocks = q.size(0) * q.size(2),
          .threads = threads},
         {&queries, &keys, &values, &out, &batch_stride, &head_stride, &position_stride, &heads,
          &length, &width});
}

}  // namespace accrue::kernels::compiled
