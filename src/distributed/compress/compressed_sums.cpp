#include "distributed/compress/compressed_sums.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "core/joint_state.h"

namespace accrue::distributed {
namespace {

std::string prefix_of(std::size_t flat) { return std::to_string(flat) + "."; }

void require_fp32(const accum::GradientBuffer& buffer) {
  for (const at::Tensor& flat : buffer.flat())
    if (buffer.is_staged() || flat.scalar_type() != at::kFloat)
      throw usage_error("compress gradients", "sums in fp32",
                        buffer.is_staged() ? std::string(accum::to_string(buffer.accumulation()))
                                           : at::toString(flat.scalar_type()),
                        "precision.accumulate = \"fp32\", or dist.compress = \"none\"");
}

std::vector<MatrixRange> matrices_in(std::size_t flat, const accum::GradientBuffer& buffer,
                                     std::span<const SlotPlace> places) {
  std::vector<MatrixRange> matrices;
  for (std::size_t slot = 0; slot < places.size(); ++slot)
    if (places[slot].flat == flat)
      if (const auto matrix = as_matrix(buffer.entries()[slot].parameter, places[slot].offset))
        matrices.push_back(*matrix);
  return matrices;
}

}  // namespace

std::unique_ptr<Compressor> make_compressor(Compression compression, std::int64_t elements,
                                            std::vector<MatrixRange> matrices, std::int64_t world) {
  if (compression == Compression::powersgd)
    return make_power_sgd(elements, std::move(matrices), world);
  return make_block_compressor(compression, elements, world);
}

std::optional<MatrixRange> as_matrix(const at::Tensor& tensor, std::int64_t offset) {
  if (tensor.dim() < 2 || tensor.numel() == 0) return std::nullopt;
  return MatrixRange{offset, tensor.size(0), tensor.numel() / tensor.size(0)};
}

CompressedSums::CompressedSums(std::shared_ptr<accum::GradientBuffer> buffer,
                               std::span<const SlotPlace> places, Compression compression,
                               std::int64_t world)
    : buffer_(std::move(buffer)) {
  require_fp32(*buffer_);
  for (std::size_t flat = 0; flat < buffer_->flat().size(); ++flat)
    compressors_.push_back(make_compressor(compression, buffer_->flat()[flat].numel(),
                                           matrices_in(flat, *buffer_, places), world));
}

void CompressedSums::sum(double weight, Exchange& exchange) {
  for (const accum::GradientBuffer::Entry& entry : buffer_->entries())
    if (entry.slot->fresh) entry.slot->main.zero_();
  for (std::size_t flat = 0; flat < compressors_.size(); ++flat)
    compressors_[flat]->sum(buffer_->flat()[flat], 1 / weight, exchange);
}

NamedParameters CompressedSums::state(Exchange& exchange) const {
  NamedParameters state;
  for (std::size_t flat = 0; flat < compressors_.size(); ++flat)
    append_state(state, prefix_of(flat), compressors_[flat]->state(exchange));
  return state;
}

void CompressedSums::load_state(const StoredTensors& state, std::int64_t rank) {
  for (std::size_t flat = 0; flat < compressors_.size(); ++flat)
    compressors_[flat]->load_state(state_under(prefix_of(flat), state), rank);
}

}  // namespace accrue::distributed
