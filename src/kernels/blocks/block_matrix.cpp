#include "kernels/blocks/block_matrix.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <optional>

#include "accrue/core/error.h"
#include "kernels/grain.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

constexpr BlockFormat formats[] = {BlockFormat::q8_0, BlockFormat::q4_k, BlockFormat::q5_k,
                                   BlockFormat::q6_k};

/// The format of blocks with this number of bytes.
std::optional<BlockFormat> format_of_bytes(std::int64_t bytes) {
  for (const BlockFormat format : formats)
    if (size_of(format).bytes == bytes) return format;
  return std::nullopt;
}

std::uint16_t* as_words(c10::BFloat16* values) { return reinterpret_cast<std::uint16_t*>(values); }
float* as_words(float* values) { return values; }

template <class Value>
void unpack_to(const at::Tensor& blocks, BlockFormat format, const at::Tensor& out) {
  const BlockSize size = size_of(format);
  const std::uint8_t* from = blocks.const_data_ptr<std::uint8_t>();
  auto* to = as_words(out.mutable_data_ptr<Value>());
  at::parallel_for(0, blocks.size(0) * blocks.size(1), grain_of(size.elements),
                   [&](std::int64_t begin, std::int64_t end) {
                     unpack_blocks(format, from + begin * size.bytes, end - begin,
                                   to + begin * size.elements);
                   });
}

}  // namespace

bool is_in_blocks(at::ScalarType dtype, at::IntArrayRef sizes) {
  return dtype == at::kByte && sizes.size() == 3 && format_of_bytes(sizes[2]).has_value();
}

BlockFormat format_of(const at::Tensor& blocks) {
  if (is_in_blocks(blocks)) return *format_of_bytes(blocks.size(2));
  throw usage_error("read a weight in blocks",
                    "bytes [N, K / elements, bytes of a block] of a known format", text_of(blocks),
                    "a weight in q8_0, q4_k, q5_k or q6_k");
}

MatrixSize matrix_size(at::ScalarType dtype, at::IntArrayRef sizes) {
  if (!is_in_blocks(dtype, sizes)) return {sizes.at(0), sizes.at(1)};
  return {sizes[0], sizes[1] * size_of(*format_of_bytes(sizes[2])).elements};
}

std::int64_t element_count(const at::Tensor& tensor) {
  if (!is_in_blocks(tensor)) return tensor.numel();
  const MatrixSize size = matrix_size(tensor);
  return size.rows * size.columns;
}

std::vector<std::int64_t> sizes_in_blocks(BlockFormat format, const MatrixSize& size) {
  const BlockSize block = size_of(format);
  return {size.rows, size.columns / block.elements, block.bytes};
}

bool is_unpacked_by_products(const at::Tensor& weight, at::ScalarType dtype) {
  return is_in_blocks(weight) || (weight.scalar_type() == at::kBFloat16 && dtype != at::kBFloat16);
}

at::Tensor unpacked(const at::Tensor& weight, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  if (!is_in_blocks(weight)) return weight.scalar_type() == dtype ? weight : weight.to(dtype);
  const BlockFormat format = format_of(weight);
  const MatrixSize size = matrix_size(weight);
  const at::ScalarType direct = dtype == at::kBFloat16 ? dtype : at::kFloat;
  at::Tensor out = at::empty({size.rows, size.columns}, weight.options().dtype(direct));
  if (direct == at::kBFloat16)
    unpack_to<c10::BFloat16>(weight, format, out);
  else
    unpack_to<float>(weight, format, out);
  return out.to(dtype);
}

void pack_into(const at::Tensor& blocks, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const BlockFormat format = format_of(blocks);
  if (format != BlockFormat::q8_0 && format != BlockFormat::q4_k)
    throw usage_error("pack a weight into blocks", "q8_0 or q4_k", text_of(blocks),
                      "one of these formats");
  const std::int64_t rows = blocks.size(0), row_blocks = blocks.size(1);
  const auto pack = format == BlockFormat::q8_0 ? pack_q8_0 : pack_q4_k;
  auto* to = blocks.mutable_data_ptr<std::uint8_t>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad_here;  // grad mode is per thread
    for (std::int64_t row = begin; row < end; ++row) {
      const at::Tensor wide = values.select(0, row).to(at::kFloat).contiguous();
      pack(wide.const_data_ptr<float>(), row_blocks, to + row * row_blocks * blocks.size(2));
    }
  });
  // Cached forms of a weight's values are recomputed by its version, which raw pointers do not
  // change.
  blocks.unsafeGetTensorImpl()->bump_version();
}

}  // namespace accrue::kernels
