#include "data/masked_tokens.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "accrue/data/own_source.h"
#include "data/fetch.h"
#include "folder.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::refusal;
using testing::values;

constexpr std::int64_t byte_tokens = 256, unpredicted = -100;

TokenMasking masking_of_bytes(double fraction = 0.15, std::uint64_t seed = 5) {
  return {.fraction = fraction, .mask_token = byte_tokens, .vocab = byte_tokens, .seed = seed};
}

/// Lines of 1 to 24 letters.
std::string lines_of_letters(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int j = 0; j <= i * 7 % 24; ++j) text += static_cast<char>('a' + (i + 3 * j) % 26);
    lines += R"({"text": ")" + text + "\"}\n";
  }
  return lines;
}

/// A model's inputs and targets for one sample, wherever it lies.
struct Shown {
  std::vector<std::int64_t> inputs, targets;
  bool operator==(const Shown&) const = default;
};

std::map<std::int64_t, Shown> samples_of(const batch::MicroBatch& micro) {
  std::map<std::int64_t, Shown> shown;
  const auto part = [](const at::Tensor& of, const SampleSpan& span) {
    return values(of[span.row].slice(0, span.begin, span.end).contiguous());
  };
  for (const SampleSpan& span : micro.spans)
    shown[span.sample_id] = {part(micro.inputs, span), part(micro.targets, span)};
  return shown;
}

class MaskedTokensTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Source> open(bool packing = false) const {
    return open_source({.globs = {lines_}, .context = 24, .packing = packing, .whole = true},
                       "data.train");
  }
  /// The draws' samples in order, `each` in a micro-batch, by draw.
  static std::map<std::int64_t, Shown> drawn(const Source& source, std::int64_t draws,
                                             std::int64_t each) {
    std::map<std::int64_t, Shown> all;
    for (std::int64_t first = 0; first < draws; first += each) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(each, draws - first)));
      std::iota(ids.begin(), ids.end(), first);
      std::vector<std::int64_t> indices = ids;
      for (std::int64_t& index : indices) index %= source.size();
      all.merge(samples_of(fetch_drawn_as(source, indices, ids)));
    }
    return all;
  }

  Folder folder_;
  std::string lines_ = folder_.write("lines.jsonl", lines_of_letters(40));
};

TEST_F(MaskedTokensTest, AWholeSampleHasAllItsTokensAndIsItsOwnTarget) {
  const batch::MicroBatch micro = testing::fetch(*open(), {3});
  EXPECT_EQ(values(micro.inputs).size(), 22);
  EXPECT_EQ(values(micro.inputs), values(micro.targets));
  EXPECT_EQ(open()->tokens(0), 1) << "a line of one token is a sample";
  EXPECT_THAT(open()->fingerprint(), HasSubstr("whole"));

  const std::string text = folder_.write("text.txt", "abcdefgh");
  const auto stream = open_source({.globs = {text}, .context = 4, .whole = true}, "data.train");
  ASSERT_EQ(stream->size(), 2);
  EXPECT_EQ(bytes_to_text(values(testing::fetch(*stream, {1}).targets)), "efgh");
}

TEST_F(MaskedTokensTest, WhatIsNotLearnedIsNotHidden) {
  const std::string lines =
      folder_.write("prompts.jsonl", R"({"prompt": "question", "completion": "answer"})"
                                     "\n");
  const auto source =
      with_masks(open_source({.globs = {lines}, .context = 24, .whole = true}, "data.train"),
                 masking_of_bytes(1));
  const batch::MicroBatch micro = testing::fetch(*source, {0});
  EXPECT_EQ(bytes_to_text(values(micro.inputs.narrow(1, 0, 8).contiguous())), "question");
  EXPECT_EQ(bytes_to_text(values(micro.targets.narrow(1, 8, 6).contiguous())), "answer");
  EXPECT_TRUE(micro.targets.narrow(1, 0, 8).eq(unpredicted).all().item<bool>());
}

TEST_F(MaskedTokensTest, DoNotDependOnTheMicroBatchPackingOrOrder) {
  const auto masked = with_masks(open(), masking_of_bytes());
  const auto packed = with_masks(open(/*packing=*/true), masking_of_bytes());
  const auto expected = drawn(*masked, 100, 1);
  ASSERT_EQ(expected.size(), 100);
  for (const std::int64_t each : {3, 17, 100}) {
    EXPECT_EQ(drawn(*masked, 100, each), expected) << each;
    EXPECT_EQ(drawn(*packed, 100, each), expected) << each;
  }
  // Ranks' shares and leases take draws in any order.
  EXPECT_EQ(samples_of(fetch_drawn_as(*masked, std::vector<std::int64_t>{9, 2}, {49, 2})),
            (std::map<std::int64_t, Shown>{{2, expected.at(2)}, {49, expected.at(49)}}));
}

TEST_F(MaskedTokensTest, AreOthersInEachDrawAndWithEachSeed) {
  const auto masked = with_masks(open(), masking_of_bytes(0.5));
  const auto other_seed = with_masks(open(), masking_of_bytes(0.5, 6));
  const auto all = drawn(*masked, 80, 8), others = drawn(*other_seed, 80, 8);
  int same_in_both_epochs = 0, same_with_both_seeds = 0, long_ones = 0;
  for (std::int64_t draw = 0; draw < 40; ++draw) {
    if (all.at(draw).inputs.size() < 12) continue;
    ++long_ones;
    same_in_both_epochs += all.at(draw) == all.at(draw + 40) ? 1 : 0;
    same_with_both_seeds += all.at(draw) == others.at(draw) ? 1 : 0;
  }
  EXPECT_GT(long_ones, 15);
  EXPECT_EQ(same_in_both_epochs, 0);
  EXPECT_EQ(same_with_both_seeds, 0);
}

/// Keys masks by the row in the micro-batch, as a collator that draws from one generator does.
class KeyedByRow final : public Source {
 public:
  explicit KeyedByRow(std::shared_ptr<const Source> masked) : masked_(std::move(masked)) {}
  std::int64_t size() const override { return masked_->size(); }
  std::int64_t vocab() const override { return masked_->vocab(); }
  std::int64_t tokens(std::int64_t index) const override { return masked_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return std::nullopt; }
  std::string fingerprint() const override { return masked_->fingerprint(); }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return masked_->fetch(indices);
  }
  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    std::vector<std::int64_t> rows(draws.size());
    std::iota(rows.begin(), rows.end(), 0);
    return masked_->fetch_drawn(indices, rows);
  }

 private:
  std::shared_ptr<const Source> masked_;
};

TEST_F(MaskedTokensTest, TheComparisonSeesMasksThatAreKeyedByTheRow) {
  const KeyedByRow wrong(with_masks(open(), masking_of_bytes()));
  EXPECT_NE(drawn(wrong, 100, 3), drawn(wrong, 100, 1));
}

TEST_F(MaskedTokensTest, OfEvaluationDependOnTheSampleAlone) {
  const auto masked = with_masks(open(), masking_of_bytes()),
             other_seed = with_masks(open(), masking_of_bytes(0.15, 6));
  const auto shown = [](const Source& source, const std::vector<std::int64_t>& indices) {
    return samples_of(fetch_as(source, indices, indices));
  };
  const auto all = shown(*masked, {4, 11, 30});
  EXPECT_EQ(shown(*masked, {30}).at(30), all.at(30));
  EXPECT_EQ(shown(*other_seed, {11, 4, 30}), all);
  EXPECT_NE(samples_of(fetch_drawn_as(*masked, std::vector<std::int64_t>{30}, {30})).at(30),
            all.at(30))
      << "training has others";
}

/// The allowed distance of a count from its mean: five standard deviations of a binomial one.
double five_deviations(double trials, double probability) {
  return 5 * std::sqrt(trials * probability * (1 - probability));
}

TEST_F(MaskedTokensTest, HaveTheSharesOfTheirDefinition) {
  constexpr std::int64_t length = 512, draws = 400;
  const std::string text = folder_.write("one.txt", std::string(length, 'q'));
  const auto source =
      with_masks(open_source({.globs = {text}, .context = length, .whole = true}, "data.train"),
                 masking_of_bytes());
  double chosen = 0, hidden = 0, same = 0;
  std::vector<double> others(byte_tokens, 0), by_position(length, 0);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const std::int64_t only = 0;
    const batch::MicroBatch micro = fetch_drawn_as(*source, std::span(&only, 1), {draw});
    const auto inputs = values(micro.inputs), targets = values(micro.targets);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (targets[i] == unpredicted) {
        EXPECT_EQ(inputs[i], 'q');
        continue;
      }
      EXPECT_EQ(targets[i], 'q');
      ++chosen;
      ++by_position[i];
      if (inputs[i] == byte_tokens)
        ++hidden;
      else if (inputs[i] == 'q')
        ++same;
      else
        ++others[static_cast<std::size_t>(inputs[i])];
    }
  }
  constexpr double all = length * draws;
  EXPECT_NEAR(chosen, 0.15 * all, five_deviations(all, 0.15));
  EXPECT_NEAR(hidden, 0.8 * chosen, five_deviations(chosen, 0.8));
  // One of the 256 tokens that may replace it is the token itself.
  EXPECT_NEAR(same, (0.1 + 0.1 / byte_tokens) * chosen, five_deviations(chosen, 0.1));
  const double another = std::accumulate(others.begin(), others.end(), 0.0);
  EXPECT_NEAR(another, (0.1 - 0.1 / byte_tokens) * chosen, five_deviations(chosen, 0.1));
  // Chi-squared: its mean is the number of cells less 1, its variance twice that.
  double of_bytes = 0, of_positions = 0;
  for (std::int64_t byte = 0; byte < byte_tokens; ++byte) {
    const double expected = another / (byte_tokens - 1);
    if (byte != 'q')
      of_bytes += std::pow(others[static_cast<std::size_t>(byte)] - expected, 2) / expected;
  }
  for (const double count : by_position)
    of_positions += std::pow(count - chosen / length, 2) / (chosen / length * 0.85);
  EXPECT_NEAR(of_bytes, byte_tokens - 2, 5 * std::sqrt(2.0 * (byte_tokens - 2)));
  EXPECT_NEAR(of_positions, length - 1, 5 * std::sqrt(2.0 * (length - 1)));
}

TEST_F(MaskedTokensTest, NeverChooseSpecialTokensNorShowTheMaskForAnother) {
  const std::string ids = folder_.write(
      "ids.jsonl", R"({"input_ids": [1, 5, 6, 7, 5, 6, 2], "labels": [1, 5, 6, 7, 5, 6, 2]})"
                   "\n");
  const auto source = with_masks(
      open_source({.globs = {ids}, .context = 8, .whole = true}, "data.train"),
      {.fraction = 1, .mask_token = 3, .vocab = 9, .never_chosen = {1, 2, 3}, .seed = 5});
  std::map<std::int64_t, int> shown;
  for (std::int64_t draw = 0; draw < 2000; ++draw) {
    const std::int64_t only = 0;
    const batch::MicroBatch micro = fetch_drawn_as(*source, std::span(&only, 1), {draw});
    const auto inputs = values(micro.inputs), targets = values(micro.targets);
    EXPECT_EQ(inputs.front(), 1);
    EXPECT_EQ(inputs.back(), 2);
    EXPECT_EQ(targets.front(), unpredicted);
    for (std::size_t i = 1; i < 6; ++i) ++shown[inputs[i]];
  }
  EXPECT_EQ(shown.size(), 9) << "each token below the vocabulary takes another's place";
  EXPECT_NEAR(shown[3], 8000, five_deviations(10'000, 0.8)) << "as the mask, and no more often";
}

TEST_F(MaskedTokensTest, RefusesWhatItCannotHide) {
  const auto refused = [&](TokenMasking masking) {
    return refusal(Error::Kind::usage, [&] { with_masks(open(), std::move(masking)); });
  };
  for (const double fraction : {0.0, -0.1, 1.1, std::nan("")})
    EXPECT_THAT(refused(masking_of_bytes(fraction)), HasSubstr("a fraction above 0"));
  EXPECT_THAT(refused({.mask_token = -1, .vocab = 9}), HasSubstr("mask token"));
  EXPECT_THAT(refused({.mask_token = 3, .vocab = 1}), HasSubstr("vocabulary"));
}

TEST_F(MaskedTokensTest, RefusesSamplesThatAreNotWholeRowsOfTokens) {
  const auto refused = [](const std::shared_ptr<const Source>& source) {
    return refusal(Error::Kind::usage, [&] { with_masks(source, masking_of_bytes()); });
  };
  int files = 0;
  const auto opened = [&](SourceOptions options, const std::string& line) {
    options.globs = {folder_.write("lines" + std::to_string(files++) + ".jsonl", line + "\n")};
    options.context = 24;
    return std::shared_ptr<const Source>(open_source(options, "data.train"));
  };
  const std::string ids = R"({"input_ids": [1, 2, 3], "labels": [1, 2, 3]})";
  const std::shared_ptr<const Source> not_whole = opened({}, ids);
  const std::shared_ptr<const Source> others =
      opened({.whole = true}, R"({"input_ids": [1, 2, 3], "labels": [1, 4, 3]})");
  const std::shared_ptr<const Source> columns =
      opened({.columns = {"input_ids", "labels"}, .whole = true}, ids);
  const std::shared_ptr<const Source> pairs =
      opened({.pairs = true}, R"({"prompt": "a", "chosen": "bb", "rejected": "cc"})");
  const at::Tensor rows = at::ones({2, 3}, at::kLong);
  for (const auto& source :
       {not_whole, others, columns, pairs, tensor_source(rows, rows.to(at::kInt)),
        tensor_source(rows.to(at::kFloat), rows),
        tensor_source(rows, rows.narrow(1, 0, 2).contiguous())})
    EXPECT_THAT(refused(source), HasSubstr("at their own places"));
  EXPECT_NO_THROW(with_masks(opened({.whole = true}, ids), masking_of_bytes()));
  EXPECT_NO_THROW(with_masks(tensor_source(rows, rows), masking_of_bytes()));
}

TEST_F(MaskedTokensTest, CountTheMaskAmongTheirIds) {
  EXPECT_EQ(with_masks(open(), masking_of_bytes())->vocab(), byte_tokens + 1);
  EXPECT_THAT(with_masks(open(), masking_of_bytes())->fingerprint(), HasSubstr("masked 0.15"));
}

}  // namespace
}  // namespace accrue::data
