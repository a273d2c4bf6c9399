// A window's reaction to memory that runs out, and its report.
#include "memory/retries.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <functional>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"

namespace accrue::memory {
namespace {

using ::testing::HasSubstr;

std::runtime_error out_of_memory() { return std::runtime_error("no memory"); }

/// A replay, or the close, may need memory that no single micro-batch needed.
TEST(Retries, MicroBatchesThatPassDoNotMakeAWindowBeginAnewForEver) {
  Recovery recovery({.planned = 4, .micro_batch = 4});
  Retries retries(&recovery, [] { return std::string("less"); });
  retries.start();
  std::vector<Recovery::Action> actions;
  for (int restart = 0; restart < 4; ++restart) {
    actions.push_back(
        retries.window_failed(7, recovery.state().micro_batch, out_of_memory()).action);
    for (int micro = 0; micro < 3; ++micro) retries.passed();
  }
  using Action = Recovery::Action;
  EXPECT_THAT(actions,
              ::testing::ElementsAre(Action::retry, Action::split, Action::retry, Action::split));
  EXPECT_EQ(retries.window_failed(7, 1, out_of_memory()).action, Action::retry);
  EXPECT_THROW(retries.window_failed(7, 1, out_of_memory()), Error);
  EXPECT_EQ(retries.count(), 6);
}

TEST(Retries, TellOnceAWindowHoweverOftenItWasSplit) {
  Recovery recovery({.planned = 16, .micro_batch = 16});
  Retries retries(&recovery);
  retries.start();
  EXPECT_EQ(retries.take_retry_report(), std::nullopt);
  for (const std::int64_t size : {16, 16, 8, 8})
    retries.failed("micro-batch 3 (samples 48 to 63)", size, out_of_memory());
  retries.passed();
  EXPECT_EQ(retries.take_retry_report(),
            "micro-batches of 16 samples ran out of memory (no memory): from here on they have 4, "
            "and the batch stays");
  EXPECT_EQ(retries.take_retry_report(), std::nullopt);
  retries.start();
  retries.failed("micro-batch 1 (samples 4 to 7)", 4, out_of_memory());
  EXPECT_EQ(retries.take_retry_report(),
            "micro-batch 1 (samples 4 to 7) ran out of memory (no memory): it went through when it "
            "was run once more");
  retries.passed();
  retries.failed("micro-batch 2 (samples 8 to 11)", 4, out_of_memory());
  EXPECT_THAT(retries.take_retry_report().value(),
              HasSubstr("(samples 4 to 7) ran out of memory (no memory): the first of 2 times; "
                        "each went through"));
}

/// Calls `failed` with the exception of an allocation that exceeds the budget.
void fail_beyond_budget(const std::function<void(const std::exception&)>& failed) {
  install_caching_allocator();
  set_budget(usage().live + (std::int64_t{1} << 20));
  try {
    const at::Tensor large = at::empty({std::int64_t{8} << 20}, at::kByte);
    ADD_FAILURE() << "8 MiB fitted in 1 MiB";
  } catch (const c10::OutOfMemoryError& error) {
    failed(error);
  }
  set_budget(std::nullopt);
}

/// A larger micro-batch needs more than the allocation that failed.
TEST(Retries, NameTheBudgetThatIsEnoughWhereItIsKnown) {
  constexpr std::int64_t kEnough = std::int64_t{330} << 20;
  const auto told_with = [](const Retries::Enough& enough) {
    Recovery recovery({.planned = 16, .micro_batch = 16});
    Retries retries(&recovery, {}, enough);
    retries.start();
    fail_beyond_budget([&](const std::exception& error) {
      for (int attempt = 0; attempt < 2; ++attempt)
        retries.failed("micro-batch 1 (samples 16 to 31)", 16, error);
    });
    return retries.take_retry_report().value();
  };
  std::vector<std::int64_t> asked;
  EXPECT_THAT(told_with([&](std::int64_t samples) {
                asked.push_back(samples);
                return std::optional(kEnough);
              }),
              ::testing::EndsWith("from here on they have 8, and the batch stays; for 16 try "
                                  "memory.budget = \"330 MiB\", which is enough"));
  EXPECT_THAT(asked, ::testing::ElementsAre(16));
  for (const auto& unknown : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)})
    EXPECT_THAT(told_with([&](std::int64_t) { return unknown; }),
                HasSubstr("; 16 take a memory.budget of more than "))
        << "less than what has failed is not enough";
}

}  // namespace
}  // namespace accrue::memory
