#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accrue/memory/caching_allocator.h"

namespace accrue::memory {

inline constexpr std::int64_t kMebi = 1 << 20;

inline at::Tensor bytes_tensor(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

/// With empty free lists and no budget.
class AllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    release_cached();
    start_ = usage();
  }
  void TearDown() override { set_budget(std::nullopt); }

  std::int64_t live() const { return usage().live - start_.live; }
  std::int64_t reserved() const { return usage().reserved - start_.reserved; }
  std::int64_t system_calls() const { return usage().system_calls - start_.system_calls; }
  /// Sets a budget of the memory that other tests hold plus `bytes`.
  void allow(std::int64_t bytes) { set_budget(start_.reserved + bytes); }

  Usage start_;
};

}  // namespace accrue::memory
