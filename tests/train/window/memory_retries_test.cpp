// What a window does about memory that runs out, and what it tells of it.
#include "train/window/memory_retries.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <functional>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "train/window/rollback_history.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

std::runtime_error out_of_memory() { return std::runtime_error("no memory"); }

/// A replay, or the close, may need what each micro-batch alone did not.
TEST(MemoryRetries, MicroBatchesThatPassDoNotMakeAWindowBeginAnewForEver) {
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  std::vector<std::string> told;
  MemoryRetries retries(
      &recovery, [&](const std::string& reason) { told.push_back(reason); },
      [] { return std::string("less"); });
  retries.start();
  std::vector<memory::Recovery::Action> actions;
  for (int restart = 0; restart < 4; ++restart) {
    actions.push_back(
        retries.window_failed(7, recovery.state().micro_batch, out_of_memory()).action);
    for (int micro = 0; micro < 3; ++micro) retries.passed();
  }
  using Action = memory::Recovery::Action;
  EXPECT_THAT(actions,
              ::testing::ElementsAre(Action::retry, Action::split, Action::retry, Action::split));
  EXPECT_EQ(retries.window_failed(7, 1, out_of_memory()).action, Action::retry);
  EXPECT_THROW(retries.window_failed(7, 1, out_of_memory()), Error);
  EXPECT_EQ(retries.count(), 6);
  EXPECT_TRUE(told.empty()) << "it did not go through";
}

TEST(MemoryRetries, TellOnceAWindowHoweverOftenItWasSplit) {
  memory::Recovery recovery({.planned = 16, .micro_batch = 16});
  std::vector<std::string> told;
  MemoryRetries retries(&recovery, [&](const std::string& reason) { told.push_back(reason); }, {});
  retries.start();
  retries.tell();
  EXPECT_TRUE(told.empty());
  for (const std::int64_t size : {16, 16, 8, 8})
    retries.failed("micro-batch 3 (samples 48 to 63)", size, out_of_memory());
  retries.passed();
  retries.tell();
  retries.tell();
  EXPECT_THAT(told,
              ::testing::ElementsAre("micro-batches of 16 samples ran out of memory (no memory): "
                                     "from here on they have 4, and the batch stays"));
  told.clear();
  retries.start();
  retries.failed("micro-batch 1 (samples 4 to 7)", 4, out_of_memory());
  retries.tell();
  EXPECT_THAT(told, ::testing::ElementsAre("micro-batch 1 (samples 4 to 7) ran out of memory (no "
                                           "memory): it went through when it was run once more"));
  retries.passed();
  retries.failed("micro-batch 2 (samples 8 to 11)", 4, out_of_memory());
  retries.tell();
  EXPECT_THAT(told.back(), HasSubstr("(samples 4 to 7) ran out of memory (no memory): the first of "
                                     "2 times; each went through"));
}

/// What an allocation throws that goes beyond the budget.
void fail_beyond_budget(const std::function<void(const std::exception&)>& failed) {
  memory::install_caching_allocator();
  memory::set_budget(memory::usage().live + (std::int64_t{1} << 20));
  try {
    const at::Tensor large = at::empty({std::int64_t{8} << 20}, at::kByte);
    ADD_FAILURE() << "8 MiB fitted in 1 MiB";
  } catch (const c10::OutOfMemoryError& error) {
    failed(error);
  }
  memory::set_budget(std::nullopt);
}

/// The allocation that failed is not all that a larger micro-batch takes.
TEST(MemoryRetries, NameTheBudgetThatIsEnoughWhereItIsKnown) {
  constexpr std::int64_t kEnough = std::int64_t{330} << 20;
  const auto told_with = [](const MemoryRetries::Enough& enough) {
    memory::Recovery recovery({.planned = 16, .micro_batch = 16});
    std::string told;
    MemoryRetries retries(
        &recovery, [&](const std::string& reason) { told = reason; }, {}, enough);
    retries.start();
    fail_beyond_budget([&](const std::exception& error) {
      for (int attempt = 0; attempt < 2; ++attempt)
        retries.failed("micro-batch 1 (samples 16 to 31)", 16, error);
    });
    retries.tell();
    return told;
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

MicroRef micro_of(std::int64_t first_sample) {
  return {.index = 0, .sample_ids = {first_sample, first_sample + 1}};
}

TEST(RollbackHistory, EachAttemptLeavesOutWhatTheOneBeforeWasTornBy) {
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  RollbackHistory torn(MemoryRetries(&recovery, {}, {}));
  EXPECT_FALSE(torn.known_bad(5, micro_of(8)));
  torn.left_out(5, micro_of(8));
  torn.torn_by_gradient(5, "bad");
  EXPECT_TRUE(torn.known_bad(5, micro_of(8)));
  EXPECT_FALSE(torn.known_bad(6, micro_of(8)));
  EXPECT_FALSE(torn.known_bad(5, micro_of(10)));
  // The one that is left out is told of again; another one is the culprit now.
  torn.left_out(5, micro_of(8));
  torn.left_out(5, micro_of(12));
  torn.torn_by_gradient(5, "bad");
  EXPECT_TRUE(torn.known_bad(5, micro_of(12)));
  // Nothing new: going back would end here again.
  torn.left_out(5, micro_of(12));
  try {
    torn.torn_by_gradient(5, "the gradient of w is not finite");
    FAIL() << "it would go back for ever";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("twice: the gradient of w is not finite"));
  }
}

TEST(RollbackHistory, WhatDidNotFitTwiceIsSplit) {
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  RollbackHistory torn(MemoryRetries(&recovery, {}, {}));
  torn.torn_by_memory(5, 4, out_of_memory());
  EXPECT_EQ(recovery.state().micro_batch, 4);
  torn.closed(4);  // an earlier window that is done again
  torn.torn_by_memory(5, 4, out_of_memory());
  EXPECT_EQ(recovery.state().micro_batch, 2);
  torn.closed(5);
  torn.torn_by_memory(9, 2, out_of_memory());
  EXPECT_EQ(recovery.state().micro_batch, 2) << "another window has a first failure of its own";
  memory::Recovery fixed({.planned = 4, .micro_batch = 4}, "it is fixed");
  RollbackHistory unsplit(MemoryRetries(&fixed, {}, [] { return std::string("less"); }));
  unsplit.torn_by_memory(5, 4, out_of_memory());
  EXPECT_THROW(unsplit.torn_by_memory(5, 4, out_of_memory()), Error);
}

}  // namespace
}  // namespace accrue::train
