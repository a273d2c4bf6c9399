#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/config/config_json.h"
#include "train/config/refusal_of.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string with_train(const std::string& train) {
  return "[run]\nsteps = 1\n[data]\ntrain = " + train + "\n[batch]\nsamples = 1\n";
}

constexpr const char* two_sources =
    R"([{path = "a/*.jsonl", weight = 3}, {weight = 0.25, path = "b.txt"}])";

TEST(Sources, HavePathsAndWeights) {
  const Config config = parse_config(with_train(two_sources), "run.toml");
  EXPECT_THAT(config.data.train, ElementsAre("a/*.jsonl", "b.txt"));
  EXPECT_THAT(config.data.weights, ElementsAre(3, 0.25));
}

TEST(Sources, MayBeStatedOnTheCommandLine) {
  const std::string plain = with_train(R"(["c.txt"])");
  const Config config = parse_config(plain, "run.toml", {std::string("data.train=") + two_sources});
  EXPECT_THAT(config.data.weights, ElementsAre(3, 0.25));
  const Config back =
      parse_config(with_train(two_sources), "run.toml", {R"(data.train=["c.txt"])"});
  EXPECT_THAT(back.data.train, ElementsAre("c.txt"));
  EXPECT_THAT(back.data.weights, IsEmpty());
}

TEST(Sources, ReadBackFromTomlAndFromJson) {
  const Config config = parse_config(with_train(two_sources), "run.toml");
  EXPECT_THAT(to_toml(config), HasSubstr(R"(train = [{ path = "a/*.jsonl", weight = 3 }, )"
                                         R"({ path = "b.txt", weight = 0.25 }])"));
  const Config from_toml = parse_config(to_toml(config), "config.toml");
  const Config from_json =
      config_from_json(nlohmann::json::parse(to_json(config).dump()), "run.json");
  for (const Config& again : {from_toml, from_json}) {
    EXPECT_EQ(again.data.train, config.data.train);
    EXPECT_EQ(again.data.weights, config.data.weights);
    EXPECT_TRUE(differences(config, again).empty());
  }
}

TEST(Sources, DifferWhereAWeightDoes) {
  const Config config = parse_config(with_train(two_sources), "run.toml");
  const Config other = parse_config(
      with_train(R"([{path = "a/*.jsonl", weight = 2}, {path = "b.txt", weight = 0.25}])"),
      "run.toml");
  const std::vector<ConfigDifference> found = differences(config, other);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found.front().key, "data.train");
}

TEST(Sources, AreRefusedWhereOneIsNone) {
  for (const auto& [train, advice] : std::vector<std::pair<std::string, std::string>>{
           {R"([{path = "a", weight = 0}])", "a weight above 0"},
           {R"([{path = "a", weight = -1}])", "a weight above 0"},
           {R"([{path = "a", weight = nan}])", "a weight above 0"},
           {R"([{path = "a", weight = inf}])", "a weight above 0"},
           {R"([{path = "a", weight = "3"}])", "a weight above 0"},
           {R"([{path = "a"}])", "a weight above 0"},
           {R"([{weight = 1}])", "a path in quotes"},
           {R"([{path = "", weight = 1}])", "a path in quotes"},
           {R"([{path = 3, weight = 1}])", "a path in quotes"},
           {R"([{path = ["a", "b"], weight = 1}])", "a path in quotes"},
           {"[{}]", "a path in quotes"},
           {R"([{path = "a", weight = 1, share = 2}])", "no other keys"},
           {R"(["a", {path = "b", weight = 1}])", "a table for each source"},
           {R"([{path = "a", weight = 1}, "b"])", "a table for each source"},
           {R"([[{path = "a", weight = 1}]])", "array of file patterns"},
           {R"({path = "a", weight = 1})", "data.train"}})
    EXPECT_THAT(refusal_of(with_train(train)), AllOf(HasSubstr("data.train"), HasSubstr(advice)))
        << train;
}

TEST(Sources, OtherListsTakeNone) {
  for (const char* key : {"val", "exclude"})
    EXPECT_THAT(refusal_of(with_train(R"(["c.txt"])"),
                           {std::string("data.") + key + R"(=[{path = "a", weight = 1}])"}),
                HasSubstr("an array of file patterns"));
}

}  // namespace
}  // namespace accrue::train
