#include "data/tokenizer/pipeline/longest_matches.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace accrue::data {
namespace {

using Place = std::pair<std::size_t, std::size_t>;

std::vector<Place> found(const std::vector<std::string>& words, const std::string& text) {
  LongestMatches beginnings;
  for (std::size_t i = 0; i < words.size(); ++i) beginnings.add(words[i], i);
  beginnings.finish();
  std::vector<Place> places;
  for (const auto& [at, number] : beginnings.find(text)) places.emplace_back(at, number);
  return places;
}

/// The same by trying each word at each position.
std::vector<Place> tried(const std::vector<std::string>& words, const std::string& text) {
  std::vector<Place> places;
  for (std::size_t at = text.size(); at-- > 0;) {
    std::optional<std::size_t> longest;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (text.compare(at, words[i].size(), words[i]) == 0 &&
          (!longest || words[i].size() > words[*longest].size()))
        longest = i;
    if (longest) places.emplace_back(at, *longest);
  }
  return places;
}

TEST(LongestMatches, FindsTheLongestWordAtEachPlaceFromTheLast) {
  EXPECT_EQ(found({"ab", "abcd", "b", "bc"}, "xabcab"),
            (std::vector<Place>{{5, 2}, {4, 0}, {2, 3}, {1, 0}}));
  EXPECT_EQ(found({"a", "a"}, "a"), (std::vector<Place>{{0, 0}})) << "the first of equals";
  EXPECT_EQ(found({}, "abc"), std::vector<Place>{});
  EXPECT_EQ(found({"abc"}, ""), std::vector<Place>{});
  EXPECT_EQ(found({std::string("\0\xff", 2)}, std::string("\0\xff", 2)),
            (std::vector<Place>{{0, 0}}));
}

TEST(LongestMatches, FindsWhatTryingEachWordFinds) {
  std::mt19937 random(7);
  const auto drawn = [&](std::size_t longest) {
    std::string text(1 + random() % longest, 'a');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 2);
    return text;
  };
  std::size_t places = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i <= random() % 8; ++i) words.push_back(drawn(6));
    const std::string text = drawn(40);
    const std::vector<Place> expected = tried(words, text);
    ASSERT_EQ(found(words, text), expected) << text;
    places += expected.size();
  }
  EXPECT_GT(places, 10'000U) << "the control: there is something to find";
}

}  // namespace
}  // namespace accrue::data
