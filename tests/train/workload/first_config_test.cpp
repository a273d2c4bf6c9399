#include "train/workload/first/first_config.h"

#include <gmock/gmock.h>

#include "accrue/train/config.h"
#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::HasSubstr;
using ::testing::Not;

DataFacts text_of(std::int64_t bytes) {
  return {.format = data::Format::text, .train = {"a.txt"}, .tokens = bytes, .vocab = 256};
}

std::string page_of(const DataFacts& data, bool bf16 = false) {
  return first_config(data, {.multiplies_bf16 = bf16}, {.command = "accrue init a.txt"});
}

Config config_of(const DataFacts& data, bool bf16 = false) {
  return parse_config(page_of(data, bf16), "accrue.toml");
}

TEST(FirstConfig, OfMoreTextHasALargerModelAndBatch) {
  std::int64_t narrower = 0, smaller = 0;
  for (const std::int64_t bytes : {1'000'000, 10'000'000, 1'000'000'000}) {
    const Config config = config_of(text_of(bytes));
    EXPECT_GT(config.model.width, narrower);
    EXPECT_GT(*config.batch.tokens, smaller);
    EXPECT_EQ(*config.batch.tokens % *config.model.context, 0);
    EXPECT_LE(*config.run.steps, 5000);
    narrower = config.model.width;
    smaller = *config.batch.tokens;
  }
}

TEST(FirstConfig, ShowsALongCommandWithoutItsMiddle) {
  std::string command = "accrue init";
  for (int file = 0; file < 500; ++file) command += " texts/" + std::to_string(file) + ".txt";
  command += " --out long.toml";
  const std::string page = first_config(text_of(100'000), {}, {.command = command});
  const std::string line = page.substr(0, page.find('\n'));
  EXPECT_LT(line.size(), 220U);
  EXPECT_THAT(line, HasSubstr("`accrue init texts/0.txt "));
  EXPECT_THAT(line, HasSubstr(" ... "));
  EXPECT_THAT(line, HasSubstr("--out long.toml`"));
  EXPECT_THAT(page_of(text_of(100'000)), HasSubstr("`accrue init a.txt`"));
}

TEST(FirstConfig, OfLittleTextFitsToIt) {
  for (const std::int64_t bytes : {400, 1'000, 20'000, 200'000}) {
    const Config config = config_of(text_of(bytes));
    EXPECT_LE(10 * *config.model.context, bytes);
    EXPECT_LE(*config.batch.tokens, bytes / 5);
    EXPECT_GT(config.model.dropout, 0) << "it is seen many times";
  }
  EXPECT_THAT(usage_message([] { page_of(text_of(300)); }),
              HasSubstr("expected at least 320 tokens to train on, received 270"));
}

TEST(FirstConfig, ComputesInBf16WhereTheMachineHasIt) {
  EXPECT_EQ(config_of(text_of(100'000), true).precision.compute, models::Compute::bf16);
  EXPECT_EQ(config_of(text_of(100'000), false).precision.compute, models::Compute::fp32);
}

TEST(FirstConfig, OfLinesHasTheContextOfTheLongest) {
  const DataFacts lines{.format = data::Format::jsonl,
                        .train = {"a.jsonl"},
                        .samples = 1000,
                        .tokens = 100'000,
                        .longest = 1001,
                        .vocab = 50257,
                        .has_ids = true};
  const Config config = config_of(lines);
  EXPECT_EQ(config.model.context, 1024);
  EXPECT_EQ(config.model.vocab, 50257);
  EXPECT_TRUE(config.data.packing) << "most lines are short beside it";
  DataFacts even = lines;
  even.longest = 120;
  EXPECT_FALSE(config_of(even).data.packing);
}

TEST(FirstConfig, TakesHeldOutFilesOrHoldsOutAPart) {
  DataFacts data = text_of(100'000);
  EXPECT_EQ(config_of(data).data.val_fraction, 0.1);
  data.val = {"val.txt"};
  EXPECT_EQ(config_of(data).data.val, std::vector<std::string>{"val.txt"});
  EXPECT_EQ(config_of(data).data.val_fraction, 0);
}

constexpr std::int64_t kMegabyte = 1'000'000;

DataFacts text_for_a_model(std::int64_t tokens, std::int64_t bytes_of_weights) {
  DataFacts data = text_of(tokens);
  data.model = {
      .from = "models/m", .kind = ModelKind::llama, .context = 131'072, .bytes = bytes_of_weights};
  return data;
}

TEST(FirstConfig, StartsFromAModelInItsShape) {
  DataFacts data = text_for_a_model(100'000, kMegabyte);
  const Config config = config_of(data);
  EXPECT_EQ(config.model.kind, ModelKind::llama);
  EXPECT_EQ(config.model.from, "models/m");
  EXPECT_EQ(config.model.context, 512) << "not all that the model could take";
  EXPECT_EQ(config.run.out, "runs/m-a");
  EXPECT_LT(config.optim.lr, config_of(text_of(100'000)).optim.lr);
  EXPECT_THAT(page_of(data), Not(HasSubstr("layers")));
  data.model.context = 16;
  EXPECT_EQ(config_of(data).model.context, 16);
  EXPECT_EQ(config_of(data).batch.samples, 256);
}

TEST(FirstConfig, GoesThroughLittleTextAFewTimesFromAModel) {
  const auto passes_of = [](std::int64_t tokens) {
    const Config config = config_of(text_for_a_model(tokens, kMegabyte));
    const double batch = static_cast<double>(*config.batch.samples * *config.model.context);
    return static_cast<double>(*config.run.steps) * batch / static_cast<double>(tokens);
  };
  for (const std::int64_t tokens : {100'000, 1'000'000}) EXPECT_NEAR(passes_of(tokens), 2.7, 0.2);
  EXPECT_NEAR(passes_of(10'000'000), 1, 0.1);
}

TEST(FirstConfig, TrainsAnAdapterToALargeModelOrAsOneWishes) {
  const auto rank_of = [](std::int64_t bytes, std::optional<bool> adapter = std::nullopt) {
    return parse_config(first_config(text_for_a_model(100'000, bytes), {},
                                     {.command = "accrue train", .adapter = adapter}),
                        "accrue.toml")
        .model.lora.adapters.rank;
  };
  EXPECT_EQ(rank_of(270 * kMegabyte), 0);
  EXPECT_EQ(rank_of(990 * kMegabyte), 16);
  EXPECT_EQ(rank_of(990 * kMegabyte, false), 0);
  EXPECT_EQ(rank_of(kMegabyte, true), 16);
}

TEST(FirstConfig, OfLinesForAModelHasNoLongerContextThanIt) {
  DataFacts lines = text_for_a_model(100'000, kMegabyte);
  lines.format = data::Format::chat;
  lines.samples = 1000;
  lines.longest = 1001;
  EXPECT_EQ(config_of(lines).model.context, 1024);
  EXPECT_EQ(config_of(lines).data.format, data::Format::chat);
  lines.model.context = 256;
  EXPECT_EQ(config_of(lines).model.context, 256) << "the line that is longer is refused by name";
}

TEST(FirstConfig, OfImagesNormalisesByGroups) {
  const DataFacts images{.format = data::Format::images,
                         .train = {"p/**/*.png"},
                         .samples = 100,
                         .vocab = 3,
                         .image = data::ImageShape{3, 32, 32}};
  const Config config = config_of(images);
  EXPECT_EQ(config.model.kind, ModelKind::resnet);
  EXPECT_EQ(config.model.batchnorm, models::BatchNormPolicy::convert_group);
  EXPECT_LE(*config.batch.samples, 25);
}

TEST(FirstConfig, NamesOfFilesArriveAsTheyAre) {
  DataFacts data = text_of(100'000);
  data.train = {"a \"quoted\" \\ name\n.txt"};
  EXPECT_EQ(config_of(data).data.train, data.train);
}

TEST(FirstConfig, SaysAReasonBesideEachChoice) {
  const std::string page = page_of(text_of(1'000'000));
  EXPECT_THAT(page, HasSubstr("# Written by `accrue init a.txt`"));
  EXPECT_THAT(page, HasSubstr("parameters, for 900 k tokens"));
  EXPECT_THAT(page, HasSubstr("passes over the data"));
}

}  // namespace
}  // namespace accrue::train
