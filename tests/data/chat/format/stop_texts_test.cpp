#include "data/chat/format/stop_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

/// The part shown of a text that arrives in pieces of up to `most` bytes.
std::string told_of(const std::string& text, const std::vector<std::string>& stops,
                    std::size_t most, bool& has_stopped) {
  std::mt19937 random(static_cast<unsigned>(text.size() + most));
  StopTexts stopping(stops);
  std::string told;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = 1 + random() % most;
    told += stopping.add(std::string_view(text).substr(at, size));
    at += size;
  }
  told += stopping.end();
  has_stopped = stopping.has_stopped();
  return told;
}

TEST(StopTexts, AreFoundWhereverPiecesAreCut) {
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    std::string told;
    bool stopped;
  };
  for (const Case& one : std::vector<Case>{
           {"one two three", {"two"}, "one ", true},
           {"one two three", {"four"}, "one two three", false},
           {"one two three", {}, "one two three", false},
           {"aaab", {"aab"}, "a", true},
           {"say \n\nUser: hi", {"\n\nUser:", "\n\nSystem:"}, "say ", true},
           {"say \n\nUse", {"\n\nUser:"}, "say \n\nUse", false},
           {"abc", {"abc"}, "", true},
       })
    for (std::size_t most = 1; most <= 5; ++most) {
      bool stopped = false;
      EXPECT_EQ(told_of(one.text, one.stops, most, stopped), one.told) << one.text;
      EXPECT_EQ(stopped, one.stopped) << one.text;
    }
}

TEST(StopTexts, HoldsBackOnlyWhatMayBecomeOne) {
  StopTexts stopping({"END", "ENOUGH"});
  EXPECT_EQ(stopping.add("the EN"), "the ");
  EXPECT_EQ(stopping.add("O"), "");
  EXPECT_EQ(stopping.add("RMOUS E"), "ENORMOUS ");
  EXPECT_EQ(stopping.end(), "E");
}

TEST(StopTexts, TellsNothingBehindOne) {
  StopTexts stopping({"x"});
  EXPECT_EQ(stopping.add("axb"), "a");
  EXPECT_EQ(stopping.add("c"), "");
  EXPECT_EQ(stopping.end(), "");
}

TEST(StopTexts, RefusesAnEmptyOne) { EXPECT_THROW(StopTexts({"a", ""}), Error); }

}  // namespace
}  // namespace accrue::data
