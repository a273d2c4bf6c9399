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

std::string with_limits(const std::string& limits) {
  return "[run]\nsteps = 1\nlimits = " + limits +
         "\n[data]\ntrain = [\"a\"]\n[batch]\nsamples = 1\n";
}

std::vector<Limit> limits_of(const std::string& limits) {
  return parse_config(with_limits(limits), "run.toml").run.limits;
}

constexpr const char* four =
    R"([{file = "/temp", above = 85000, until = 70000.5, do = "slow", speed = 0.25}, )"
    R"({file = "/charge", below = 20, do = "pause", every = "5 s"}, )"
    R"({file = "/run/preempted", do = "checkpoint"}, )"
    R"({command = "curl -sf \"http://host/notice\"", do = "stop"}])";

const Limit heat{.file = "/temp", .above = 85000, .until = 70000.5, .speed = 0.25};
const Limit charge{.file = "/charge",
                   .below = 20,
                   .action = LimitAction::pause,
                   .every = Duration{5, Duration::Unit::seconds}};
const Limit notice{.file = "/run/preempted", .action = LimitAction::checkpoint};
const Limit order{.command = "curl -sf \"http://host/notice\"", .action = LimitAction::stop};

TEST(Limits, AreATableForEach) {
  EXPECT_THAT(limits_of("[]"), IsEmpty());
  EXPECT_THAT(limits_of(four), ElementsAre(heat, charge, notice, order));
}

TEST(Limits, MayBeTablesOfTheirOwnOrStatedOnTheCommandLine) {
  const std::string text =
      "[data]\ntrain = [\"a\"]\n[batch]\nsamples = 1\n[run]\nsteps = 1\n"
      "[[run.limits]]\nfile = \"/charge\"\nbelow = 20\ndo = \"pause\"\nevery = \"5 s\"\n"
      "[[run.limits]]\nfile = \"/run/preempted\"\ndo = \"checkpoint\"\n";
  EXPECT_THAT(parse_config(text, "run.toml").run.limits, ElementsAre(charge, notice));
  const std::string over = std::string("run.limits=") + four;
  EXPECT_EQ(parse_config(text, "run.toml", {over}).run.limits.size(), 4U);
}

TEST(Limits, ReadBackFromTomlAndFromJson) {
  const Config config = parse_config(with_limits(four), "run.toml");
  const Config from_toml = parse_config(to_toml(config), "config.toml");
  const Config from_json =
      config_from_json(nlohmann::json::parse(to_json(config).dump()), "run.json");
  for (const Config& again : {from_toml, from_json}) {
    EXPECT_EQ(again.run.limits, config.run.limits);
    EXPECT_TRUE(differences(config, again).empty());
  }
  EXPECT_TRUE(may_change_on_resume("run.limits"));
}

TEST(Limits, RefuseWhatSaysNothing) {
  const auto refused = [](const std::string& limit) {
    return refusal_of(with_limits("[{" + limit + "}]"));
  };
  EXPECT_THAT(refusal_of(with_limits("\"/temp\"")),
              AllOf(HasSubstr("run.limits"), HasSubstr("an array of {file or command"),
                    HasSubstr("do = \"slow\"")));
  EXPECT_THAT(refusal_of(with_limits("[\"/temp\"]")), HasSubstr("an array of"));
  EXPECT_THAT(refused(R"(file = "/temp", above = 1)"),
              HasSubstr(R"(try do = "slow", "pause", "checkpoint" or "stop" in each)"));
  EXPECT_THAT(refused(R"(file = "/temp", above = 1, do = "halt")"), HasSubstr("try do = \"slow\""));
  EXPECT_THAT(refused(R"(above = 1, do = "slow")"), HasSubstr("try either a file or a command"));
  EXPECT_THAT(refused(R"(file = "/temp", command = "true", do = "slow")"),
              HasSubstr("try either a file or a command"));
  EXPECT_THAT(refused(R"(file = "", do = "slow")"), HasSubstr("file as a text in quotes"));
  EXPECT_THAT(refused(R"(file = "/temp", above = 1, below = 0, do = "slow")"),
              HasSubstr("above or below"));
  EXPECT_THAT(refused(R"(file = "/temp", above = "hot", do = "slow")"),
              HasSubstr("above as a number"));
  EXPECT_THAT(refused(R"(file = "/temp", above = nan, do = "slow")"),
              HasSubstr("above as a number"));
  EXPECT_THAT(refused(R"(file = "/temp", above = 1, until = 2, do = "slow")"),
              HasSubstr("until at the bound or behind it"));
  EXPECT_THAT(refused(R"(file = "/temp", below = 1, until = 0, do = "slow")"),
              HasSubstr("until at the bound or behind it"));
  EXPECT_THAT(refused(R"(file = "/temp", until = 0, do = "slow")"),
              HasSubstr("until beside above or below"));
  EXPECT_THAT(refused(R"(file = "/temp", above = 1, do = "pause", speed = 0.5)"),
              HasSubstr("speed with do = \"slow\" alone"));
  for (const char* speed : {"0", "1", "2", "-1"})
    EXPECT_THAT(refused(std::string(R"(file = "/temp", above = 1, do = "slow", speed = )") + speed),
                HasSubstr("a speed of at least 0.01 and below 1"));
  for (const char* every : {"5", "\"5 steps\"", "\"0 s\"", "\"often\""})
    EXPECT_THAT(refused(std::string(R"(file = "/temp", do = "stop", every = )") + every),
                HasSubstr("every as a time"));
  EXPECT_THAT(refused(R"(file = "/temp", do = "stop", abvoe = 1)"), HasSubstr("no other keys"));
}

}  // namespace
}  // namespace accrue::train
