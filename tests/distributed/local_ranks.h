#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "accrue/distributed/exchange.h"

namespace accrue::distributed::testing {

/// Ranks that are threads of this process: `run(exchange)` on each. An exception fails the test.
class LocalRanks {
 public:
  explicit LocalRanks(std::int64_t world)
      : world_(world), slots_(static_cast<std::size_t>(world)), meet_(world) {}

  template <class Run>
  void run(const Run& run) {
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < world_; ++rank)
      threads.emplace_back([&, rank] {
        Rank exchange(*this, rank);
        try {
          run(exchange);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
          meet_.arrive_and_drop();
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

  std::int64_t world() const { return world_; }
  /// Bytes that a rank sent to others.
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  class Rank final : public Exchange {
   public:
    Rank(LocalRanks& all, std::int64_t rank) : all_(all), rank_(rank) {}
    std::int64_t rank() const override { return rank_; }
    std::int64_t world() const override { return all_.world_; }

    at::Tensor all_to_all(const at::Tensor& rows) override {
      EXPECT_EQ(rows.size(0), world());
      return collect(rows, rows.nbytes() / static_cast<std::size_t>(world()),
                     [&](const at::Tensor& theirs) { return theirs[rank_]; });
    }
    at::Tensor all_gather(const at::Tensor& own) override {
      return collect(own, own.nbytes(), [](const at::Tensor& theirs) { return theirs; });
    }

   private:
    template <class Take>
    at::Tensor collect(const at::Tensor& own, std::size_t bytes_for_each, const Take& take) {
      EXPECT_TRUE(own.is_contiguous());
      if (rank_ == 0) all_.sent_bytes_ += (world() - 1) * static_cast<std::int64_t>(bytes_for_each);
      all_.slots_[static_cast<std::size_t>(rank_)] = own;
      all_.meet_.arrive_and_wait();
      std::vector<at::Tensor> taken;
      for (const at::Tensor& theirs : all_.slots_) taken.push_back(take(theirs));
      at::Tensor result = at::stack(taken);
      all_.meet_.arrive_and_wait();
      return result;
    }

    LocalRanks& all_;
    std::int64_t rank_;
  };

  std::int64_t world_;
  std::vector<at::Tensor> slots_;
  std::int64_t sent_bytes_ = 0;
  std::barrier<> meet_;
};

/// A seeded tensor from its own stream; the global generator is left alone.
inline at::Tensor random_tensor(at::IntArrayRef sizes, std::uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::dtype(at::kDouble)).to(at::kFloat);
}

}  // namespace accrue::distributed::testing
