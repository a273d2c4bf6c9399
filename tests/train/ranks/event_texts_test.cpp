#include "train/ranks/event_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(EventTexts, ComeBack) {
  const std::vector<Event> events = events_from_text(to_text(
      {{.name = "quarantine", .reason = "sample 7", .step = 3}, {.name = "oom", .reason = ""}}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].name, "quarantine");
  EXPECT_EQ(events[0].reason, "sample 7");
  EXPECT_EQ(events[0].step, 3);
  EXPECT_EQ(events[1].name, "oom");
  EXPECT_THAT(events_from_text(to_text({})), IsEmpty());
}

TEST(EventTexts, MayNameAFileWhoseNameIsNoText) {
  const std::vector<Event> events =
      events_from_text(to_text({{.name = "unreadable", .reason = "caf\xe9.png"}}));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].reason, "caf\xef\xbf\xbd.png");
}

TEST(EventTexts, AreNothingElse) {
  for (const char* text : {"", "{}", "[7]", "[{}]", R"([{"name": "a", "reason": "b"}])",
                           R"([{"name": "a", "reason": "b", "step": 0.5}])",
                           R"([{"name": "a", "reason": 7, "step": 1}])",
                           R"([{"name": "a", "reason": "b", "step": 1})"})
    EXPECT_THAT(error_of([&] { events_from_text(text); }, Error::Kind::runtime),
                HasSubstr("a name, a reason and a step"))
        << text;
}

}  // namespace
}  // namespace accrue::train
