#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/config/refusal_of.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string said_of(const std::string& line) { return refusal_of("[run]\nsteps = 1\n" + line); }

TEST(TomlMistakes, ATextWithoutQuotesIsShownWithThem) {
  EXPECT_EQ(said_of("[optim]\nkind = adamw\n"),
            "read config run.toml:4:8: expected quotes around a text, received kind = adamw; try "
            "kind = \"adamw\"");
  for (const auto& [line, right] : std::vector<std::pair<std::string, std::string>>{
           {"a = text.txt", "a = \"text.txt\""},
           {"a = [text.txt, \"b.txt\"]", "a = [\"text.txt\", \"b.txt\"]"},
           {"a = /data/x.txt # a path", "a = \"/data/x.txt\" # a path"},
           {"a = ../x.txt", "a = \"../x.txt\""},
           {"a = 10 min", "a = \"10 min\""},
           {"a = 10 M tokens", "a = \"10 M tokens\""},
           {"a = 6GiB", "a = \"6GiB\""},
           {"a = 6G", "a = \"6G\""},
           {"a = 5%", "a = \"5%\""},
           {"a = fp32", "a = \"fp32\""},
           {"a = inference", "a = \"inference\""},
           {"a = {kind = cosine, warmup = 5}", "a = {kind = \"cosine\", warmup = 5}"},
           {"a = [\n  x.txt,\n]", "\"x.txt\","},
           {"a = caf\u00e9", "a = \"caf\u00e9\""}}) {
    EXPECT_THAT(said_of(line), HasSubstr("quotes around a text")) << line;
    EXPECT_THAT(said_of(line), HasSubstr("; try " + right)) << line;
  }
}

TEST(TomlMistakes, BooleansAndNullOfOtherFormatsAreNamed) {
  EXPECT_THAT(said_of("a = True"), HasSubstr("true or false, in small letters, received a = True; "
                                             "try a = true"));
  EXPECT_THAT(said_of("a = None"), HasSubstr("TOML has no null, received a = None; try leaving"));
}

TEST(TomlMistakes, NumbersThatAreMisspeltGetNoQuotes) {
  for (const char* line : {"a = 1e-", "a = 1e", "a = 1.2.3", "a = 1,000", "a = -"})
    EXPECT_THAT(said_of(line), AllOf(HasSubstr("valid TOML"), Not(HasSubstr("quotes around"))))
        << line;
}

TEST(TomlMistakes, OtherFormatsAreToldThatConfigsAreToml) {
  for (const char* yaml :
       {"optim:\n  kind: adamw\n", "---\nrun:\n  steps: 1\n", "# a run\nsteps: 5\n"})
    EXPECT_THAT(refusal_of(yaml), AllOf(StartsWith("read config run.toml: expected TOML"),
                                        HasSubstr("received YAML; try accrue init")))
        << yaml;
  EXPECT_THAT(refusal_of("{\"run\": {\"steps\": 1}}"), HasSubstr("received JSON; try accrue init"));
}

TEST(TomlMistakes, AMissingEqualsSignIsShown) {
  EXPECT_EQ(said_of("[model]\nlayers 2\n"),
            "read config run.toml:4:8: expected = between a key and its value, received layers 2; "
            "try layers = 2");
  EXPECT_THAT(said_of("lr: 0.002"), HasSubstr("received lr: 0.002; try lr = 0.002"));
  EXPECT_THAT(said_of("kind adamw"), HasSubstr("; try kind = \"adamw\""));
}

TEST(TomlMistakes, ASectionWithoutItsBracketIsShownWithIt) {
  EXPECT_EQ(said_of("[optim\nlr = 1\n"),
            "read config run.toml:3:7: expected a ] after the name of a section, received [optim; "
            "try [optim]");
}

TEST(TomlMistakes, AKeyThatIsStatedTwiceIsNamed) {
  EXPECT_THAT(said_of("steps = 2\n"),
              HasSubstr("expected each key and each section once, received 'steps' a second time; "
                        "try leaving one of the two out"));
}

TEST(TomlMistakes, TheParsersMessageComesBehindOurs) {
  EXPECT_THAT(said_of("a = 1e-"), AllOf(HasSubstr("received a mistake in its form ("),
                                        Not(HasSubstr("Error while parsing"))));
}

TEST(TomlMistakes, TypographicQuotesAreMadeStraight) {
  EXPECT_THAT(said_of("out = \u201cruns/small\u201d"),
              HasSubstr("expected straight quotes around a text, received out = "
                        "\u201cruns/small\u201d; try out = \"runs/small\""));
  EXPECT_THAT(said_of("out = \u2018runs\u2019"), HasSubstr("; try out = 'runs'"));
  EXPECT_THAT(refusal_of("", {"run.out=\u201cruns/small\u201d"}),
              HasSubstr("straight quotes around a text, or none, received "
                        "\u201cruns/small\u201d; try --run.out=runs/small"));
  EXPECT_THAT(refusal_of("", {"run.out=\u201cruns"}), HasSubstr("; try --run.out=runs"));
}

TEST(TomlMistakes, AMissingClosingQuoteIsNamed) {
  EXPECT_THAT(said_of("a = \"open"),
              HasSubstr("expected a quote at the end of a text, received a = \"open, which has "
                        "none; try closing the quote on the same line"));
}

TEST(TomlMistakes, ATextToTrainOnIsNoConfig) {
  for (const char* text : {"It was a dark night, and nobody was there.\n",
                           "\"\"\"A module.\"\"\"\n"
                           "import os\nx = 1\n"})
    EXPECT_THAT(refusal_of(text), HasSubstr("received a text that is no config; try accrue init"))
        << text;
}

TEST(TomlMistakes, InOverridesAreCorrectedForTheShell) {
  EXPECT_THAT(refusal_of("", {"data.train=[a.txt]"}),
              HasSubstr("quotes around a text, received [a.txt]; try '--data.train=[\"a.txt\"]'"));
  EXPECT_THAT(refusal_of("", {"data.train=[\"a.txt\""}), HasSubstr("a TOML value after the '='"));
}

}  // namespace
}  // namespace accrue::train
