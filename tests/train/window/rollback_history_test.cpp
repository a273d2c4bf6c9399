#include "train/window/rollback_history.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

std::runtime_error no_memory() { return std::runtime_error("no memory"); }

/// The ledger of window 5, in which two samples each from these numbers on were quarantined.
std::vector<LedgerEntry> quarantined(const std::vector<std::int64_t>& first_samples) {
  std::vector<LedgerEntry> entries{
      {.micro = {.sample_ids = {0, 1}}, .status = MicroStatus::committed}};
  for (const std::int64_t first : first_samples)
    entries.push_back(
        {.micro = {.sample_ids = {first, first + 1}}, .status = MicroStatus::quarantined});
  entries.push_back({.micro = {.sample_ids = {14, 15}}, .status = MicroStatus::lost});
  return entries;
}

TEST(RollbackHistory, EachAttemptQuarantinesWhatTheOneBeforeWasTornBy) {
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  RollbackHistory history{memory::Retries(&recovery)};
  const auto tear = [&](const std::vector<std::int64_t>& first_samples, const std::string& reason) {
    const std::vector<LedgerEntry> entries = quarantined(first_samples);
    history.torn_by_gradient({.window = 5, .entries = entries}, reason);
  };
  EXPECT_THAT(history.to_quarantine(5), ::testing::IsEmpty());
  tear({8}, "bad");
  EXPECT_THAT(history.to_quarantine(5), ::testing::ElementsAre(8));
  EXPECT_THAT(history.to_quarantine(6), ::testing::IsEmpty());
  // The known one is quarantined again; another one is the culprit now.
  tear({8, 12}, "bad");
  EXPECT_THAT(history.to_quarantine(5), ::testing::ElementsAre(8, 12));
  // Nothing new: going back would end here again.
  try {
    tear({8, 12}, "the gradient of w is not finite");
    FAIL() << "it would go back for ever";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("twice: the gradient of w is not finite"));
  }
}

TEST(RollbackHistory, WhatDidNotFitTwiceIsSplit) {
  memory::Recovery recovery({.planned = 4, .micro_batch = 4});
  RollbackHistory torn{memory::Retries(&recovery)};
  torn.torn_by_memory(5, 4, no_memory());
  EXPECT_EQ(recovery.state().micro_batch, 4);
  torn.closed(4);  // an earlier window that is repeated
  torn.torn_by_memory(5, 4, no_memory());
  EXPECT_EQ(recovery.state().micro_batch, 2);
  torn.closed(5);
  torn.torn_by_memory(9, 2, no_memory());
  EXPECT_EQ(recovery.state().micro_batch, 2) << "another window has a first failure of its own";
  memory::Recovery fixed({.planned = 4, .micro_batch = 4}, "it is fixed");
  RollbackHistory unsplit{memory::Retries(&fixed, [] { return std::string("less"); })};
  unsplit.torn_by_memory(5, 4, no_memory());
  EXPECT_THROW(unsplit.torn_by_memory(5, 4, no_memory()), Error);
}

}  // namespace
}  // namespace accrue::train
