#include "observe/report/shown_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace accrue::observe {
namespace {

using ::testing::HasSubstr;

std::vector<EventPoint> many_and_one(std::int64_t many) {
  std::vector<EventPoint> events;
  for (std::int64_t step = 1; step <= many; ++step) {
    events.push_back({step, 0, "quarantine", "sample"});
    if (step == many / 2) events.push_back({step, 0, "resume", "after a kill"});
  }
  return events;
}

TEST(ShownEvents, AllWhereTheyAreFew) {
  const ShownEvents shown = choose_events(many_and_one(20), 100);
  EXPECT_EQ(shown.events.size(), 21U);
  EXPECT_EQ(shown.left_out, 0);
}

TEST(ShownEvents, OfManyTheRareOnesAndTheFirstAndTheLast) {
  const ShownEvents shown = choose_events(many_and_one(5000), 100);
  EXPECT_LE(shown.events.size(), 100U);
  EXPECT_EQ(static_cast<std::int64_t>(shown.events.size()) + shown.left_out, 5001);
  EXPECT_EQ(shown.events.front().step, 1);
  EXPECT_EQ(shown.events.back().step, 5000);
  const auto is_resumption = [](const EventPoint& event) { return event.name == "resume"; };
  EXPECT_EQ(std::count_if(shown.events.begin(), shown.events.end(), is_resumption), 1);
}

TEST(ShownEvents, ALongReasonIsCutBetweenCharactersAndSaysSo) {
  std::string reason;
  while (reason.size() < 9999) reason += "\xc3\xa4";  // a character of two bytes
  const ShownEvents shown = choose_events({{1, 0, "note", "x" + reason}}, 10);
  const std::string& cut = shown.events[0].reason;
  EXPECT_LT(cut.size(), 2100U);
  EXPECT_THAT(cut, HasSubstr("\xc3\xa4 ... ("));
  EXPECT_THAT(cut, HasSubstr(" more bytes)"));
}

}  // namespace
}  // namespace accrue::observe
