#include "distributed/reduce/slot_watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace accrue::distributed {
namespace {

/// Three parameters with manual contributions to their slots.
struct Watched {
  static NamedParameters parameters() {
    NamedParameters all;
    for (const char* name : {"first", "tied", "last"})
      all.push_back({name, at::zeros({2}).requires_grad_(true)});
    return all;
  }

  void contribute(std::size_t slot) {
    kernels::GradSlot& target = *buffer.entries()[slot].slot;
    target.contribute().into.fill_(1);
    target.done();
  }
  void micro_batch(const std::vector<std::size_t>& slots) {
    watch->begin_micro_batch();
    for (const std::size_t slot : slots) contribute(slot);
  }

  accum::GradientBuffer buffer{parameters()};
  /// After each counted contribution: the final slots, as letters.
  std::vector<std::string> finals;
  std::optional<SlotWatch> watch{std::in_place, buffer, [this] {
                                   std::string now;
                                   for (std::size_t slot = 0; slot < 3; ++slot)
                                     if (watch->is_final(slot)) now += "ftl"[slot];
                                   finals.push_back(now);
                                 }};
};

const std::vector<std::size_t> one_pass = {1, 2, 1, 0};

TEST(SlotWatchTest, ASlotIsFinalWithItsLastContribution) {
  Watched watched;
  watched.micro_batch(one_pass);
  EXPECT_EQ(watched.finals, (std::vector<std::string>{"", "", "", ""})) << "not known yet";
  watched.finals.clear();
  watched.micro_batch(one_pass);
  EXPECT_EQ(watched.finals, (std::vector<std::string>{"", "l", "tl", "ftl"}));
  EXPECT_EQ(watched.watch->final_at(), (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(watched.watch->contributions(1), 4);
}

TEST(SlotWatchTest, WhatTheLastMicroBatchOfAWindowHadIsLearned) {
  Watched watched;
  watched.micro_batch(one_pass);
  watched.watch->end();
  watched.contribute(0);
  EXPECT_EQ(watched.finals.size(), one_pass.size()) << "between micro-batches nothing counts";
  watched.finals.clear();
  watched.micro_batch({2});
  EXPECT_EQ(watched.finals, std::vector<std::string>{"l"});
}

TEST(SlotWatchTest, AMicroBatchThatIsForgottenTeachesNothing) {
  Watched watched;
  watched.micro_batch(one_pass);
  watched.watch->forget();
  watched.finals.clear();
  watched.micro_batch(one_pass);
  EXPECT_EQ(watched.finals, (std::vector<std::string>{"", "", "", ""}));
}

TEST(SlotWatchTest, ASlotWithFewerContributionsThanBeforeIsNotFinal) {
  Watched watched;
  watched.micro_batch(one_pass);
  watched.finals.clear();
  watched.micro_batch({1, 0});
  EXPECT_EQ(watched.finals, (std::vector<std::string>{"", "f"}));
  watched.finals.clear();
  watched.micro_batch(one_pass);
  EXPECT_EQ(watched.finals.back(), "ftl") << "the most that was ever seen is expected";
}

TEST(SlotWatchTest, WhatWasNeverSeenComesLast) {
  Watched watched;
  watched.micro_batch({2, 1});
  EXPECT_EQ(watched.watch->final_at(),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(), 2, 1}));
}

TEST(SlotWatchTest, SlotsAreLeftAloneWhenItEnds) {
  Watched watched;
  watched.watch->begin_micro_batch();
  watched.watch.reset();
  watched.contribute(0);
  EXPECT_TRUE(watched.finals.empty());
}

}  // namespace
}  // namespace accrue::distributed
