#include "distributed/compress/compression.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <string>

#include "accrue/core/error.h"
#include "distributed/compress/block_codec.h"
#include "distributed/compress/compression_shards.h"
#include "distributed/compress/feedback_compressor.h"

namespace accrue::distributed {
namespace {

constexpr std::int64_t kBlock = kCodecBlock;
/// How many blocks a thread processes at once.
constexpr std::int64_t kGrainBlocks = 128;

/// run(begin, count, code) for ranges of `elements` that begin at a block, on all threads: `code`
/// points to the range's code.
template <class Run>
void for_blocks(std::int64_t elements, const BlockCodec& codec, const Run& run) {
  const std::int64_t blocks = (elements + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, kGrainBlocks, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * kBlock;
    const std::int64_t count = std::min(last * kBlock, elements) - begin;
    run(begin, static_cast<std::size_t>(count),
        static_cast<std::size_t>(first) * codec.block_bytes);
  });
}

class BlockCompressor final : public FeedbackCompressor {
 public:
  BlockCompressor(Compression compression, std::int64_t elements, std::int64_t world)
      : FeedbackCompressor(std::string(to_string(compression)), elements, world),
        codec_(compression == Compression::bf16 ? bf16_codec() : int8_codec()),
        layout_(elements, world, kBlock),
        shard_residual_(at::zeros({layout_.shard_elements()}, at::kFloat)) {}

 private:
  CompressedSum sum_corrected(const at::Tensor& values, double conversion,
                              Exchange& exchange) override {
    const at::Tensor own = codes(world());
    each_shard(values, own,
               [this](const at::Tensor& shard, const at::Tensor& code) { encode(shard, code); });
    const at::Tensor received = exchange.all_to_all(own);
    const at::Tensor shard = shard_residual_ * conversion;
    for (std::int64_t rank = 0; rank < world(); ++rank) decode_add(received[rank], shard);
    const at::Tensor shard_code = codes(1);
    encode(shard, shard_code[0]);
    const at::Tensor gathered = exchange.all_gather(shard_code[0]);

    const bool finite = is_finite(gathered);
    if (finite) keep_errors(values, own, shard, shard_code[0]);
    values.zero_();
    add_decoded(gathered, values);
    return {finite, 2 * (world() - 1) * shard_code.numel()};
  }

  void add_kept(const at::Tensor& kept, std::int64_t rank) const override {
    const FlatRange shard = layout_.range(rank);
    kept.narrow(0, shard.offset, shard.elements).add_(shard_residual_.narrow(0, 0, shard.elements));
  }

  /// Each rank takes its shard of `kept`, which is encoded once: in the sum.
  void take_kept(const at::Tensor& kept, std::int64_t rank) override {
    const FlatRange shard = layout_.range(rank);
    residual().zero_();
    shard_residual_.zero_();
    shard_residual_.narrow(0, 0, shard.elements)
        .copy_(kept.narrow(0, shard.offset, shard.elements));
  }

  /// Keeps the errors of the codes.
  void keep_errors(const at::Tensor& values, const at::Tensor& own, const at::Tensor& shard,
                   const at::Tensor& shard_code) {
    residual().zero_();
    add_decoded(own, residual());
    residual().neg_().add_(values);
    shard_residual_.zero_();
    decode_add(shard_code, shard_residual_);
    shard_residual_.neg_().add_(shard);
  }

  /// Memory for the codes of `shards` shards; zeros stay where a shard is shorter than the others.
  at::Tensor codes(std::int64_t shards) const {
    const auto bytes = static_cast<std::int64_t>(codec_.block_bytes);
    return at::zeros({shards, layout_.shard_elements() / kBlock * bytes}, at::kByte);
  }

  template <class Run>
  void each_shard(const at::Tensor& values, const at::Tensor& rows, const Run& run) const {
    for (std::int64_t rank = 0; rank < world(); ++rank) {
      const FlatRange range = layout_.range(rank);
      run(values.narrow(0, range.offset, range.elements), rows[rank]);
    }
  }

  void add_decoded(const at::Tensor& rows, const at::Tensor& values) const {
    each_shard(values, rows, [this](const at::Tensor& shard, const at::Tensor& code) {
      decode_add(code, shard);
    });
  }

  void encode(const at::Tensor& values, const at::Tensor& code) const {
    const float* const from = values.const_data_ptr<float>();
    std::uint8_t* const to = code.mutable_data_ptr<std::uint8_t>();
    for_blocks(values.numel(), codec_, [&](std::int64_t begin, std::size_t count, std::size_t at) {
      codec_.encode(from + begin, count, to + at);
    });
  }

  void decode_add(const at::Tensor& code, const at::Tensor& values) const {
    const std::uint8_t* const from = code.const_data_ptr<std::uint8_t>();
    float* const to = values.mutable_data_ptr<float>();
    for_blocks(values.numel(), codec_, [&](std::int64_t begin, std::size_t count, std::size_t at) {
      codec_.decode_add(from + at, count, to + begin);
    });
  }

  bool is_finite(const at::Tensor& rows) const {
    return codec_.is_finite(rows.const_data_ptr<std::uint8_t>(),
                            static_cast<std::size_t>(layout_.padded_elements()));
  }

  BlockCodec codec_;
  CompressionShards layout_;
  at::Tensor shard_residual_;  ///< error of the shard that this rank adds up
};

}  // namespace

std::unique_ptr<Compressor> make_block_compressor(Compression compression, std::int64_t elements,
                                                  std::int64_t world) {
  if (compression != Compression::bf16 && compression != Compression::int8)
    throw usage_error("compress gradients in blocks", "bf16 or int8", to_string(compression),
                      "make_power_sgd, or ordered_sum without compression");
  return std::make_unique<BlockCompressor>(compression, elements, world);
}

}  // namespace accrue::distributed
