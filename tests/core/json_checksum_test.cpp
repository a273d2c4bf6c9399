#include "core/json_checksum.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace accrue {
namespace {

using nlohmann::json;

const json object{{"name", "a"},         {"empty", json::object()},
                  {"rate", 1e-5},        {"steps", json::array({1, -0.0, 18446744073709551615U})},
                  {"bytes", "\xff.txt"}, {"none", nullptr}};

TEST(JsonChecksum, AgreesWithWhatWasWritten) {
  const std::string text = text_with_checksum(object);
  const json read = json::parse(text);
  EXPECT_EQ(read["checksum"].get<std::string>().size(), 16U);
  EXPECT_TRUE(has_its_checksum(read));
  EXPECT_TRUE(has_its_checksum(json::parse(read.dump()))) << "laid out otherwise";
  EXPECT_EQ(text_with_checksum(read), text) << "written again";
}

TEST(JsonChecksum, NoticesEveryFlippedBit) {
  const std::string text = text_with_checksum(object);
  const json whole = json::parse(text);
  int noticed = 0;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    json read = json::parse(flipped, nullptr, false);
    if (!read.is_object()) continue;  // no reader accepts it
    const bool has_no_checksum = !read.contains("checksum");
    if (!has_its_checksum(read)) {
      ++noticed;
    } else if (!has_no_checksum) {
      EXPECT_EQ(read, whole) << "bit " << bit;
    }
  }
  EXPECT_GT(noticed, 100);
}

TEST(JsonChecksum, OfAnEarlierVersionIsNotAsked) {
  EXPECT_TRUE(has_its_checksum(object));
  EXPECT_TRUE(has_its_checksum(json::object()));
  EXPECT_FALSE(has_its_checksum({{"checksum", 5}})) << "no text";
}

}  // namespace
}  // namespace accrue
