#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "accrue/kernels/attention.h"
#include "memory/thread_meter.h"
#include "support/kernels.h"

namespace accrue::kernels {
namespace attention_memory_test {

/// The most bytes that forward and backward hold at once, for one sample of this context. In one
/// thread, because the meter counts the calling one.
std::int64_t peak_of(std::int64_t context, double dropout) {
  constexpr std::int64_t heads = 2, width = 16;
  const at::Tensor qkv = at::ones({1, context, 3 * width}).requires_grad_(true);
  const at::Tensor upstream = at::ones({1, context, width});
  const memory::ThreadMeter meter;
  const at::Tensor out =
      attention(qkv, heads, {.dropout = dropout}, {.training = true, .sample_ids = {0}});
  out.backward(upstream);
  return meter.peak();
}

/// The peak of grouped attention with caps, which fp32 kernels compute for any dtype.
std::int64_t grouped_peak_of(std::int64_t context, std::int64_t window) {
  const GroupedAttentionOptions options{
      .heads = 4, .kv_heads = 2, .window = window, .soft_cap = 30, .dropout = 0.2};
  const auto leaf = [&](std::int64_t heads) {
    return at::ones({1, context, heads * 8}).requires_grad_(true);
  };
  const at::Tensor q = leaf(4), k = leaf(2), v = leaf(2), upstream = at::ones(q.sizes());
  const memory::ThreadMeter meter;
  grouped_attention(q, k, v, options, {.training = true, .sample_ids = {0}}).backward(upstream);
  return meter.peak();
}

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Whole probabilities would take four times the bytes at twice the context: at 2,048 33 MB here,
/// for one head.
TEST(AttentionMemory, GrowsLinearlyWithTheContext) {
  if (testing::by_aten())
    return testing::not_possible_here("the meter is that of accrue's own attention");
  const Threads one(1);
  for (const double dropout : {0.0, 0.2}) {
    const std::int64_t at_512 = peak_of(512, dropout), at_1024 = peak_of(1024, dropout),
                       at_2048 = peak_of(2048, dropout);
    EXPECT_LE(at_1024, at_512 * 21 / 10) << dropout;
    EXPECT_LE(at_2048, at_1024 * 21 / 10) << dropout;
    EXPECT_LT(at_2048, 2048 * 2048 * 4 / 4) << dropout;
  }
}

TEST(AttentionMemory, OfGroupsGrowsLinearlyWithTheContext) {
  if (testing::by_aten())
    return testing::not_possible_here("the meter is that of accrue's own attention");
  const Threads one(1);
  for (const std::int64_t window : {0, 100}) {
    const std::int64_t at_512 = grouped_peak_of(512, window),
                       at_1024 = grouped_peak_of(1024, window),
                       at_2048 = grouped_peak_of(2048, window);
    EXPECT_LE(at_1024, at_512 * 21 / 10) << window;
    EXPECT_LE(at_2048, at_1024 * 21 / 10) << window;
    EXPECT_LT(at_2048, 2048 * 2048 * 4 / 2) << window;
  }
}

}  // namespace attention_memory_test
}  // namespace accrue::kernels
