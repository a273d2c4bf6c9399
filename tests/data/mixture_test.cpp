#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "accrue/core/error.h"
#include "accrue/data/own_source.h"
#include "data/fetch.h"
#include "folder.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::refusal;
using ::testing::SizeIs;
using testing::values;

constexpr std::int64_t mixed_context = 16;

/// JSON lines of many lengths, some of them weighted, that begin with `name`.
std::string mixed_lines(const std::string& name, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += R"({"prompt": ")" + name + R"(", "completion": ")" + std::string(1 + i % 7, 'x') +
             std::to_string(i) + R"(", "weight": )" + (i % 3 == 0 ? "0.5" : "1") + "}\n";
  return lines;
}

std::string mixed_pairs(const std::string& name, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += R"({"prompt": ")" + name + R"(", "chosen": ")" + std::string(1 + i % 5, 'y') +
             R"(", "rejected": ")" + std::string(1 + i % 3, 'n') + std::to_string(i) + "\"}\n";
  return lines;
}

/// Everything that a model sees of a micro-batch, as text, so that two can be compared.
std::string seen(const batch::MicroBatch& micro) {
  std::ostringstream text;
  text << micro.inputs << micro.targets << micro.tokens << " " << micro.sequences_per_sample;
  if (micro.weights.defined()) text << micro.weights;
  for (const SampleSpan& span : micro.spans)
    text << " " << span.row << ":" << span.begin << "-" << span.end;
  return text.str();
}

class MixtureTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Source> open(const std::vector<std::string>& files, bool packing = false,
                                     bool pairs = false) const {
    return open_source(
        {.globs = files, .context = mixed_context, .packing = packing, .pairs = pairs},
        "data.train");
  }
  /// Text of words and two files of lines.
  std::vector<MixturePart> parts() const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "word " + std::to_string(i) + " ";
    return {{"words.txt", open({folder_.write("words.txt", text)}), 3},
            {"a.jsonl", open({folder_.write("a.jsonl", mixed_lines("a", 20))}), 1},
            {"b.jsonl", open({folder_.write("b.jsonl", mixed_lines("bb", 9))}), 0.5}};
  }
  static std::unique_ptr<Source> mixed(std::vector<MixturePart> parts, bool packing = false) {
    return mix(std::move(parts), {.context = mixed_context, .packing = packing}, "data.train");
  }

  Folder folder_;
};

TEST_F(MixtureTest, HasTheSamplesOfItsParts) {
  const auto mixture = mixed(parts());
  std::int64_t index = 0;
  for (const MixturePart& part : mixture->parts())
    for (std::int64_t own = 0; own < part.source->size(); ++own, ++index) {
      EXPECT_EQ(seen(fetch(*mixture, {index})), seen(fetch(*part.source, {own})));
      EXPECT_EQ(mixture->tokens(index), part.source->tokens(own));
    }
  EXPECT_EQ(mixture->size(), index);
  EXPECT_EQ(mixture->vocab(), 256);
  EXPECT_TRUE(mixture->has_text());
  EXPECT_THAT(mixture->files(), SizeIs(3));
}

// The comparator distinguishes a sample from its neighbours.
TEST_F(MixtureTest, AnotherSampleIsSeen) {
  const auto mixture = mixed(parts());
  for (std::int64_t index = 1; index < mixture->size(); ++index)
    ASSERT_NE(seen(fetch(*mixture, {index})), seen(fetch(*mixture, {index - 1})));
}

/// Files that are mixed give the micro-batches of the same files joined.
void expect_like_joined(const Source& mixture, const Source& joined, unsigned seed) {
  ASSERT_EQ(mixture.size(), joined.size());
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> indices(1 + random() % 12);
    for (std::int64_t& index : indices)
      index = static_cast<std::int64_t>(random() % static_cast<unsigned>(joined.size()));
    ASSERT_EQ(seen(fetch(mixture, indices)), seen(fetch(joined, indices)));
  }
}

TEST_F(MixtureTest, IsAsOneSourceOfItsFiles) {
  const std::string a = folder_.write("a.jsonl", mixed_lines("a", 20));
  const std::string b = folder_.write("b.jsonl", mixed_lines("bb", 9));
  for (const bool packing : {false, true})
    expect_like_joined(*mixed({{"a", open({a})}, {"b", open({b}), 7}}, packing),
                       *open({a, b}, packing), 3);
}

TEST_F(MixtureTest, OfPairsKeepsBothSequencesTogether) {
  const std::string a = folder_.write("a.jsonl", mixed_pairs("a", 12));
  const std::string b = folder_.write("b.jsonl", mixed_pairs("longer", 7));
  const auto part = [&](const std::string& file) { return open({file}, true, true); };
  for (const bool packing : {false, true})
    expect_like_joined(*mixed({{"a", part(a)}, {"b", part(b), 2}}, packing),
                       *open({a, b}, packing, true), 5);
  const auto without_spans = mixed({{"a", open({a}, false, true)}, {"b", part(b)}});
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { fetch(*without_spans, {0}); }),
              HasSubstr("pairs with spans"));
}

TEST_F(MixtureTest, SaysInItsFingerprintWhatItIsMadeOf) {
  const auto of = [&](double weight, bool packing) {
    std::vector<MixturePart> own = parts();
    own[1].weight = weight;
    return mixed(std::move(own), packing)->fingerprint();
  };
  EXPECT_EQ(of(1, false), of(1, false));
  EXPECT_NE(of(1, false), of(2, false));
  EXPECT_NE(of(1, false), of(1, true));
  std::vector<MixturePart> turned = parts();
  std::swap(turned[1], turned[2]);
  // Before the files are written again for another mixture.
  const std::string of_turned = mixed(std::move(turned))->fingerprint();
  EXPECT_NE(of(1, false), of_turned);
}

TEST_F(MixtureTest, HasOneLengthWhereItsPartsHave) {
  EXPECT_EQ(mixed(parts())->uniform_tokens(), std::nullopt);
  const std::vector<MixturePart> all = parts();
  const std::vector<MixturePart> words{all[0], all[0]};
  EXPECT_EQ(mixed(words)->uniform_tokens(), mixed_context);
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { mixed(words, true); }), HasSubstr("data.packing"));
}

TEST_F(MixtureTest, TellsWhatItsPartsTell) {
  std::vector<MixturePart> own = parts();
  own[2] = {"short", open({folder_.write("c.jsonl", mixed_lines("c", 3) + "{\"text\": \"x\"}\n")}),
            1};
  EXPECT_THAT(mixed(own)->remarks(),
              ElementsAre("short: 1 sample(s) of fewer than two tokens are left out"));
}

TEST_F(MixtureTest, RefusesWhatIsNoMixture) {
  EXPECT_THAT(refusal(Error::Kind::usage, [] { mixed({}); }), HasSubstr("received none"));
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    std::vector<MixturePart> own = parts();
    own[0].weight = bad;
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { mixed(std::move(own)); }),
                HasSubstr("weights above 0"))
        << bad;
  }
  const auto mixture = mixed(parts());
  for (const std::int64_t outside : {std::int64_t{-1}, mixture->size()})
    EXPECT_THROW(fetch(*mixture, {outside}), Error);
}

/// Rows are taken apart and joined, where columns and a program's own batches would be lost.
TEST_F(MixtureTest, RefusesPartsThatAreNoRowsOfTokens) {
  const std::shared_ptr<const Source> columns =
      open_source({.globs = {folder_.write("c.jsonl", R"({"input_ids": [1, 2], "labels": [1, 2]})"
                                                      "\n")},
                   .context = mixed_context,
                   .columns = {"input_ids", "labels"}},
                  "data.train");
  const std::shared_ptr<const Source> own = own_source(OwnBatches<int>{
      .size = 3, .fetch = [](std::span<const std::int64_t>) { return 1; }, .identity = "own"});
  const std::shared_ptr<const Source> reals =
      tensor_source(at::ones({2, 3}), at::ones({2, 3}, at::kLong));
  for (const auto& source : {columns, own, reals}) {
    std::vector<MixturePart> of_all = parts();
    of_all[1] = {"other", source, 1};
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { mixed(std::move(of_all)); }),
                AllOf(HasSubstr("rows of token ids"), HasSubstr("other")));
  }
}

}  // namespace
}  // namespace accrue::data
