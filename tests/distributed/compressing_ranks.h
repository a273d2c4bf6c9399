#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "distributed/compress/compression.h"
#include "local_ranks.h"

namespace accrue::distributed::testing {

/// Ranks of this process that sum gradients, each with a compressor.
struct CompressingRanks {
  template <class Make>
  CompressingRanks(std::int64_t world, const Make& make) : all(world) {
    for (std::int64_t rank = 0; rank < world; ++rank) compressors.push_back(make());
  }

  Compressor& of(std::int64_t rank) { return *compressors[static_cast<std::size_t>(rank)]; }

  /// Row r of the result is rank r's sum of the rows.
  at::Tensor sum(const at::Tensor& gradients, double unit = 1) {
    at::Tensor result = gradients.clone();
    all.run([&](Exchange& exchange) {
      const std::int64_t rank = exchange.rank();
      const CompressedSum sum = of(rank).sum(result[rank], unit, exchange);
      if (rank == 0) last = sum;
    });
    return result;
  }

  /// The state that all keep together: "kept" first.
  NamedParameters state() {
    std::vector<NamedParameters> states(compressors.size());
    all.run([&](Exchange& exchange) {
      const std::int64_t rank = exchange.rank();
      states[static_cast<std::size_t>(rank)] = of(rank).state(exchange);
    });
    return states.front();
  }
  void load(const NamedParameters& state) {
    for (std::int64_t rank = 0; rank < all.world(); ++rank)
      of(rank).load_state(stored(state), rank);
  }

  /// The sum of the kept errors, in the last window's unit.
  at::Tensor kept() { return state().front().tensor.to(at::kDouble); }

  LocalRanks all;
  std::vector<std::unique_ptr<Compressor>> compressors;
  CompressedSum last;  ///< of rank 0
};

}  // namespace accrue::distributed::testing
